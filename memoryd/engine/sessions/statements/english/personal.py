"""English: who a person is, where they live, what they do, and who belongs to them."""

from __future__ import annotations

from memoryd.engine.sessions.statements.english.words import NOT_NAMES
from memoryd.engine.sessions.statements.language import Rules

PERSONAL = (
    Rules(
        (
            rf"my (?:full |first |real |given |legal )?name(?:'s| is) (?:also )?(?:actually "
            rf")?{NOT_NAMES}(?:<name>|<word>)<end>",
            rf"my name is {NOT_NAMES}<name>",
            rf"(?:please |just |you can |you may |people |everyone |everybody |my friends |friends "
            rf"|most people )*calls? me {NOT_NAMES}(?:<name>)(?=\s*(?:$|[^\w\s]|(?:instead|and|but|"
            rf"from|because|not|for short)\b))",
            r"(?:please )?(?:address|refer to) me as <name>",
            rf"(?:(?<=hi,\s)|(?<=hey,\s)|(?<=hello,\s)|(?<=hi\s)|(?<=hey\s)|(?<=hello\s)|"
            rf"(?<=hi!\s)|(?<=hello!\s))<im> {NOT_NAMES}(?!(?:<demonym>)\b)(?-i:[A-Z][a-z]+)<end>",
            rf"<im> {NOT_NAMES}(?!(?:<demonym>)\b)(?-i:[A-Z][a-z]+)[,.!] (?:it's )?(?:nice|pleased|"
            rf"good) to meet",
            rf"i(?: usually| mostly)? go by (?:the name |the nickname )?(?:of )?{NOT_NAMES}<name>",
            rf"<im> (?:called|named) {NOT_NAMES}<name>",
            rf"<im> {NOT_NAMES}(?!(?:<demonym>)\b)(?-i:[A-Z][a-z]+)(?: <cap>)?,? (?:and <im> |and "
            rf"i (?:run|work|live|study|am|manage|own|lead|teach)|(?:a|an|your|the|your new) "
            rf"(?:[\w-]+ ){{0,4}}(?:<job>|assistant|user|guy|person|owner)\b|from <cap>|\d+ years)",
        ),
        topic="user.name",
        confidence=0.95,
    ),
    Rules(
        (
            rf"my (?P<thing>last |middle |maiden |family |nick|sur|user ?)name(?:'s| is) "
            rf"{NOT_NAMES}(?:<name>|<word>)<end>",
        ),
        topic="user.{thing}name",
        confidence=0.95,
    ),
    Rules(
        (r"my (?:sur|last |first |middle )?name is (?:spelled|spelt|pronounced|written) \w",),
        confidence=0.9,
    ),
    Rules(
        (r"my pronouns are \w", r"i(?: go by| use) (?:the pronouns )?\w+/\w+"),
        topic="user.pronouns",
        confidence=0.95,
    ),
    Rules(
        (
            r"my birthday(?:'s| is| falls| will be)(?: on| in)? <date>",
            r"i was born (?:on|in) (?:<date>|\d{4})",
            r"my (?:date of birth|birth ?date|dob) is [\w ,./-]*\d",
            r"<date> is my birthday",
        ),
        topic="user.birthday",
        confidence=0.95,
    ),
    Rules((r"<im> \d{1,3} years? old", r"<im> \d{2} ?yo\b"), topic="user.age", confidence=0.85),
    Rules(
        (
            r"my (?:home |postal |mailing |new |street |current |delivery |shipping )?address is "
            r"(?=[^?]{0,60}\d)(?:<cap>|\d)",
            r"(?:i|we) <very>live (?:in|at|on|near|close to|outside(?: of)?|just outside(?: of)?|"
            r"with [\w ]{2,30} in) <place>",
            r"<im> (?:currently |now |originally )?(?:based|living|located|residing) in <place>",
        ),
        topic="user.address",
        confidence=0.85,
    ),
    Rules(
        (
            r"<im> (?:originally )?from (?!the |<day>|<month>)(?:<cap>)(?! (?:page|team|desk))",
            r"<im> originally from \w",
            r"i (?:come|hail) from <cap>",
            r"i grew up in <cap>",
            r"i was born (?:and raised )?in (?:the )?<cap>",
        ),
        topic="user.origin",
        confidence=0.85,
    ),
    Rules((r"(?:i|we) <very>live (?:in|on|near) <dwelling>\b",)),
    # Without a topic: one moves to another language or database, too.
    Rules(
        (
            r"(?:<ive>|i|we|we've) (?:just |recently |finally )?moved to (?!<day>|<month>|"
            r"<stage>)<cap>",
        )
    ),
    Rules(
        (
            r"<im> (?:a |an )?<demonym><end>",
            r"<im> (?:also )?(?:an?|the) (?:[\w-]+ ){0,4}<trait><end>",
        ),
    ),
    Rules(
        (
            r"my (?P<thing>(?:text |code )?editor|ide|os|operating system|shell|terminal|browser|"
            r"keyboard layout|distro|window manager|main language|bank|blood type|dentist|gym)(?: "
            r"of choice)? is (?!not|down|slow|broken|so|too|very|the|this|that|crash|freez|frozen|"
            r"stuck|acting|in|on|being)\w",
        ),
        topic="user.{thing}",
    ),
    Rules(
        (
            r"my (?:local )?time ?zone is \w",
            r"<im> (?:in|on) (?:the )?[A-Za-z]+(?:/\w+)? (?:time|timezone|time zone)<end>",
        ),
        topic="user.timezone",
        confidence=0.95,
    ),
    Rules(
        (
            r"my (?:new )?e-?mail(?: address)?(?:'s| is) <email>",
            r"(?:you can )?(?:reach|e-?mail|contact|write) (?:to )?me (?:at|on|under|via) <email>",
        ),
        topic="user.email",
        confidence=0.95,
    ),
    Rules(
        (
            r"my (?P<thing>work|private|personal|business|school) e-?mail(?: address)?(?:'s| is) "
            r"<email>",
        ),
        topic="user.{thing} email",
        confidence=0.95,
    ),
    Rules(
        (
            r"my (?:work |private |personal |cell |mobile |new |home |office |tele)*(?:phone|"
            r"mobile|cell|number|phone number|cell number|mobile number)(?:'s| is) <number>",
            r"(?:you can )?(?:reach|call|text|contact) me (?:at|on|under|via) <number>",
        ),
        topic="user.phone",
        confidence=0.95,
    ),
    Rules(
        (
            r"my (?P<thing>github|gitlab|twitter|discord|telegram|slack|instagram|linkedin|"
            r"mastodon|bluesky|reddit|steam|skype|signal) (?:handle|username|user name|account|"
            r"user|id|name|profile|nick)(?:'s| is) (?!(?:about|for|full|private|public|not|on|in|"
            r"the|a|down|broken|hacked)\b)\S",
        ),
        topic="user.{thing}",
        confidence=0.95,
    ),
    Rules(
        (
            r"i <very>work (?:for|at) (?:<name>|(?:an?|the) (?!moment|time|same|best|while|living|"
            r"bit|long|few|minute|day|week|lot|weekend|office|desk|table|kitchen)\w+)",
            r"my employer is <cap>",
            r"<ive> been working (?:for|at) (?:<cap>|an? )",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"i <very>work as (?:an?|the) \w",
            r"<ive> been working as (?:an?|the) \w",
            r"my (?:job|profession|occupation|job title|role at \w+) is (?:(?:being )?an? "
            r"(?:[\w-]+ ){0,3}<job><end>|(?-i:[A-Z]))",
            r"<im> (?:currently |also |now )?(?:an?|the) (?:[\w-]+ ){0,4}<job><end>",
            r"<im> (?:currently |now )?(?:retired|self-employed|unemployed)<end>",
            r"i <very>work in (?:the )?(?:marketing|finance|it|healthcare|hr|sales|education|tech|"
            r"law|banking|construction|insurance|retail|hospitality|logistics|publishing|"
            r"advertising|research|academia|accounting|consulting|real estate|customer service|"
            r"customer support|manufacturing|agriculture|security|design|media|film)\b",
            r"i <very>teach [\w ]+(?:at|in|to)\b",
            r"i (?:run|own|manage|lead|founded) (?:an?|the|my own) (?:[\w-]+ ){0,4}(?:company|shop|"
            r"store|business|restaurant|bakery|café|cafe|farm|agency|studio|team|startup|school|"
            r"firm|clinic|practice|hotel|hostel|museum|library|warehouse|theatre|theater|kitchen|"
            r"garage|bar|gym|blog|department|salon)\b",
        ),
        topic="user.job",
        confidence=0.85,
    ),
    Rules(
        (
            r"i <very>study (?!for|hard|it|this|that|the|a lot|more|too|with)\w+(?: \w+){0,3} "
            r"(?:at|in) <cap>",
            r"<im> (?:currently )?(?:studying|majoring in) (?!for|hard|it|this|that|the )\w+(?: "
            r"\w+){0,3} (?:at|in) <cap>",
            r"i(?:'m| am)? major(?:ing)? in \w",
            r"i graduated (?:from|in) (?:<cap>|\d{4}|the <cap>)",
            r"i (?:have|hold|got) (?:a|an|my) (?:[\w'.-]+ ){0,2}(?:degree|phd|doctorate|mba|"
            r"bachelor's|master's|diploma) (?:in|from)\b",
        ),
        topic=None,
        confidence=0.85,
    ),
    Rules(
        (
            rf"(?:my|our) <relation>(?:'s|s)? (?:full |first |nick)?name(?:'s| is) "
            rf"{NOT_NAMES}<word>",
            rf"(?:my|our) <relation>(?:'s| is| are)(?: called| named) {NOT_NAMES}<word>",
            r"(?:my|our) <relation>(?:'s| is) (?-i:[A-Z])[\w'-]+<end>",
            r"(?:my|our) <relation>,? (?-i:[A-Z])[\w'-]+,? (?:is (?:\d|an? |allergic|vegan|"
            r"vegetarian|from <cap>)|works (?:at|as|for|in)\b|lives in\b|has <illness>|was born|"
            r"turns \d|loves|hates|likes|studies|goes to)",
            r"(?:my|our) (?:<relation>|kids|children|parents) (?:is|are) (?:<very>)(?:allergic|"
            r"vegan|vegetarian|pescatarian|lactose|gluten|diabetic|autistic|deaf|blind|"
            r"colou?r-?blind|\d{1,3}(?: years old| months old)?<end>|an? (?:[\w-]+ ){0,3}(?:<job>|"
            r"<trait>)|from <cap>|<demonym>)",
            r"(?:my|our) (?:<relation>|kids|children|parents) (?:<very>)(?:uses? a wheelchair|"
            r"ha(?:s|ve) <illness>|works? (?:as|at|for) |lives? (?:in <place>|with (?:us|me)\b)|"
            r"speaks? <language>)",
            r"(?:my|our) <relation>(?:'s)? birthday is (?:on |in )?<date>",
            r"(?:i|we|<ive> got|we've got) (?:have )?<count> (?:[\w-]+ ){0,2}<family>(?=\s*(?:$|"
            r"[^\w\s]|(?:and|but|who|with|together|from)\b))",
            r"(?:i|we) have <count> (?:[\w-]+ ){0,2}<family>,? (?:named|called|aged|ages|"
            r"(?-i:[A-Z]))",
            r"(?:i|we) have <count> (?:[\w-]+ ){0,2}(?:<family>|dog|cat|pet|goldfish|bird)s? "
            r"(?:named|called) \w",
            r"<im> (?:happily |recently |newly )?(?:married|divorced|widowed|single|"
            r"engaged)(?=\s*(?:$|[.,!]|(?:and|since) |to (?:<cap>|an? )))",
            r"<im> (?:the |an? )?(?:\w+ ){0,2}(?:mother|father|parent|mom|mum|dad|grandmother|"
            r"grandfather) (?:of|to) \w",
            r"(?:my|our) <relation>'s (?:school|teacher|doctor|kindergarten|birthday|college|"
            r"coach) is (?:<cap>|<date>)",
            r"(?:my|our) (?:kids|children|sons|daughters|parents|dogs|cats)(?:'s?)?(?: names)? are "
            r"(?:called |named )?(?-i:[A-Z])[\w'-]+(?:,| and)",
            r"(?:my <only_one>|my family) and i (?:<very>)(?:live in <place>|are (?:vegan|"
            r"vegetarian)|have <count> (?:[\w-]+ ){0,2}<family>)",
            r"<ive> been (?:happily )?(?:married|divorced|vegan|vegetarian|sober) (?:for|since)\b",
        ),
        topic=None,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:my|our) (?P<thing>(?:\w+ ){0,2}?<person>)(?:'s| is)(?: called| named)? "
            r"(?-i:[A-Z])[\w'-]+",
        ),
        topic="role:{thing}",
        about_user=None,
    ),
    Rules(
        (
            r"<im> (?:<very>)(?:allergic|intolerant) to (?!your|you|this|that|mondays|people|work|"
            r"bullshit|stupid|nothing|drama)\w",
            r"<im> (?:<very>)(?:lactose|gluten)[- ]intolerant",
            r"<im> (?:<very>)(?:an? )?(?:<very>)(?:vegan|vegetarian|pescatarian|teetotal|"
            r"c(?:o)?eliac|diabetic|dyslexic|colou?r[- ]?blind|left[- ]handed|deaf|hard of hearing|"
            r"blind|autistic|epileptic|asthmatic|gluten[- ]free|dairy[- ]free)<end>",
            r"i (?:<very>)(?:have|suffer from) (?:severe |mild |chronic |bad )?<illness>",
            r"(?:i was|<ive> been) (?:recently |just )?diagnosed with (?!it|this|that|them)\w",
            r"i (?:can'?t|cannot|can not|don'?t) have (?:any )?(?:caffeine|dairy|gluten|nuts|"
            r"alcohol|sugar|lactose|soy|eggs|meat|wheat|seafood|shellfish|salt|pork)\b",
            r"we(?:'re| are) (?:<very>)(?:vegans?|vegetarians?|pescatarians?)<end>",
            r"my blood type is \w",
            r"my (?:shoe|shirt|dress|ring|trouser|jeans) size is \w",
            r"i(?:'m| am) \d[.,]?\d* ?(?:cm|m|feet|ft|kg)\b",
        ),
        topic=None,
        confidence=0.9,
    ),
    Rules(
        (
            r"i <very>speak (?:fluent |some |a little |a bit of |native )?<language>\b",
            r"my (?:native language|mother tongue|first language|native tongue) is \w",
            r"<im> (?:fluent in|a native speaker of|learning) <language>\b",
        ),
        topic=None,
        confidence=0.85,
    ),
    Rules(
        (
            r"i play (?:the )?(?:guitar|piano|violin|viola|cello|drums|bass|flute|saxophone|"
            r"trumpet|harp|clarinet|ukulele|football|soccer|tennis|chess|basketball|rugby|hockey|"
            r"golf|badminton|volleyball|cricket)\b",
            r"i collect (?!the|data|this|that|them|some|my)\w",
            r"my hobb(?:y is|ies are|ies include) \w",
            r"i spell my (?:last |first |sur)?name \w",
            r"i report to (?-i:[A-Z])\w+",
            r"i use (?:an? )?[\w.+#-]+(?: [\w.+#-]+){0,2} (?:for everything|as my|every day|daily|"
            r"for (?:all|most)(?: of)? my|at work|on (?:all )?my)\b",
            r"i run <cap> on (?:all )?my\b",
            r"i use (?:an? )?(?:[\w-]+ ){0,3}(?:keyboard|mac|macbook(?: pro| air)?|iphone|android|"
            r"thinkpad|chromebook|linux|windows|macos|ubuntu|wheelchair|hearing aids?|screen "
            r"reader)<end>",
            r"i (?:go|have|do|play|take|run|swim|train|meet|teach|visit|practi[sc]e|work out|"
            r"volunteer)[\w' -]{0,40} (?:every|each) (?:<day>|morning|week|weekday|weekend|month|"
            r"summer|other|second)",
            r"i can only (?:meet|work|talk|call|do) [\w ]{0,20}(?:on|in|before|after) (?:the "
            r")?(?:<day>|mornings|afternoons|evenings|weekends|weekdays|\d)",
            r"<im> not an? (?:morning|night|cat|dog|coffee|tea|people) person",
            r"i (?:drive|own|ride) (?:an?|my) (?:[\w-]+ ){0,3}(?:<cap>|\d{4}|bike|motorcycle|car|"
            r"van)",
            r"(?:my|our) (?:car|laptop|phone|computer|main machine|work laptop|camera|bike) is an? "
            r"(?:[\w-]+ ){0,2}(?:<cap>|\d{4})",
        ),
        topic=None,
    ),
)
