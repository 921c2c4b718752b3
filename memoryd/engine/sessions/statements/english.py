"""English: what lasts, and what only looks like it."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules, Table

_FRAGMENTS = {
    "im": r"i(?:'?m| am)",
    "ive": r"i(?:'?ve| have)",
    "very": r"(?:(?:really|absolutely|strongly|generally|usually|always|also|much|definitely|do|"
    r"personally|still|actually|truly|honestly|totally|particularly|especially|only|mostly|"
    r"typically|tend to|both|currently|now|originally|proudly|happily|quite|very|severely|mildly|"
    r"deathly|highly|slightly|officially|strictly) )*",
    "month": r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?",
    "day": r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?",
    "date": r"(?:(?:the )?\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:<month>)\b|(?:<month>)\.? (?:the )?"
    r"\d{1,2}\b|(?:<month>)\.? \d{4}\b|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?\b|"
    r"(?:the )?\d{1,2}(?:st|nd|rd|th)\b|(?:<month>)\b|end of (?:<month>|q[1-4]|the (?:month|year|quarter))|"
    r"q[1-4]\b)",
    "end": r"(?=\s*(?:$|[^\w\s]|(?:and|but|by the way|btw|so|from|who|or|because|as well|too|now|"
    r"then|not|although|though|with|since|in)\b))",
    # What a liking may be about: nothing at hand, nothing of this conversation.
    "object": r"(?!(?:it|its|it's|\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|not to (?:say|answer|talk|discuss|comment|share)|that|this|these|those|you|your|yours|the|how|what|where|when|who|"
    r"why|if|him|her|his|them|their|everything|each|every|all of|all|both|option|to (?:think|see|say|"
    r"know|hear|admit|be|bother|ask|interrupt|tell|imagine|believe|add|point|have|help|get|do|"
    r"learn more|start|make|try|explore|create|keep|share|find|focus|discuss|talk|not)|to(?=\s*(?:\W|$))|seeing|"
    r"hearing|knowing|being able|having|getting|doing|making|sharing|us|one|none|more|some|"
    r"something|anything|another|our|my (?:life|job))\b)\S",
    "place": r"(?:(?:the )?(?:<cap>)|\d+ \w|(?!(?:a|an|the|fear|hope|peace|harmony|constant|"
    r"dreams?|denial|hell|chaos|interesting|sin|this|that|my|your|different|another|such|one|it|"
    r"and|for|with|here|there|poverty|pain|darkness|luxury|shame|reality|between|times|today)\b)"
    r"[a-z][\w'-]+|(?:a|an|the) (?:[\w-]+ ){0,3}(?:flat|house|village|town|city|apartment|farm|"
    r"cabin|suburbs?|countryside|island|area|region|district|neighbou?rhood|boat|condo|uk|us|"
    r"usa|netherlands|philippines|midwest|mountains|coast))",
    "relation": r"(?:older |younger |eldest |youngest |oldest |big |little |ex-|late |twin |"
    r"middle |step-?|first |new )?(?:wife|husband|spouse|partner|fianc[eé]e?|girlfriend|boyfriend|"
    r"son|daughter|mother|father|mom|mum|dad|brother|sister|grandmother|grandfather|grandma|"
    r"grandpa|nephew|niece|aunt|uncle|cousin|baby|kid|child|mother-in-law|father-in-law|"
    r"brother-in-law|sister-in-law|best friend|roommate|flatmate|dog|cat|puppy|kitten|horse|"
    r"parrot|rabbit|hamster|pet|godson|goddaughter)",
    "only_one": r"(?:wife|husband|spouse|partner|fianc[eé]e?|girlfriend|boyfriend|mother|father|"
    r"mom|mum|dad|best friend|mother-in-law|father-in-law)",
    "person": r"(?:boss|manager|team lead|tech lead|lead|developer|cto|ceo|cfo|coo|designer|"
    r"accountant|lawyer|doctor|gp|dentist|therapist|landlord|landlady|teacher|supervisor|"
    r"advisor|adviser|professor|client|product owner|scrum master|project manager|contact|"
    r"mentor|coach|assistant|vet|agent|architect|line manager|admin|administrator|editor|"
    r"publisher|neighbou?r)",
    "count": r"(?:an?|one|two|three|four|five|six|seven|eight|\d{1,2}|twin|several)",
    "family": r"(?:kids?|children|sons?|daughters?|boys|girls|siblings|brothers?|sisters?|"
    r"grandchildren|grandkids|dogs?|cats?|puppy|puppies|kittens?|rabbits?|horses?|parrots?|"
    r"chickens|twins|toddlers?|nephews?|nieces?|child|son|daughter)",
    "job": r"(?:engineer|developer|programmer|teacher|nurse|doctor|lawyer|attorney|paralegal|"
    r"designer|architect|accountant|consultant|manager|director|analyst|scientist|researcher|"
    r"professor|lecturer|student|writer|author|journalist|editor|translator|interpreter|"
    r"photographer|artist|illustrator|musician|singer|actor|actress|chef|cook|baker|barista|"
    r"waiter|waitress|carpenter|electrician|plumber|mechanic|welder|farmer|gardener|driver|pilot|"
    r"sailor|soldier|officer|firefighter|paramedic|midwife|dentist|vet|veterinarian|pharmacist|"
    r"therapist|psychologist|psychiatrist|physiotherapist|surgeon|biologist|chemist|physicist|"
    r"mathematician|statistician|economist|historian|librarian|archaeologist|geologist|"
    r"astronomer|freelancer|entrepreneur|founder|ceo|cto|cfo|investor|banker|broker|realtor|"
    r"salesperson|sales rep|marketer|recruiter|administrator|sysadmin|devops|technician|"
    r"technologist|specialist|coordinator|planner|strategist|tester|secretary|receptionist|"
    r"tailor|hairdresser|barber|coach|trainer|instructor|tutor|professional|retiree|pensioner|"
    r"widow|widower|veteran|immigrant|citizen|mom|mum|dad|mother|father|parent|homeowner|"
    r"phd candidate|postdoc|intern|apprentice|trainee|freshman|sophomore|undergraduate|"
    r"copywriter|blogger|youtuber|filmmaker|producer|animator|contractor|builder|surveyor|"
    r"auditor|bookkeeper|cashier|clerk|curator|dietitian|nutritionist|educator|principal|"
    r"social worker|caregiver|stay-at-home (?:mom|dad|parent)|vegan|vegetarian|pescatarian|"
    r"muslim|christian|catholic|buddhist|hindu|atheist|celiac|coeliac|diabetic|night owl|"
    r"early bird|morning person|night person|cat person|dog person|introvert|extrovert|"
    r"non-smoker|smoker|teetotall?er|sommelier|broker)",
    "illness": r"(?:asthma|diabetes|type (?:1|2|one|two) diabetes|adhd|add|dyslexia|"
    r"c(?:o)?eliac disease|celiac|epilepsy|arthritis|migraines|high blood pressure|low blood "
    r"pressure|hypertension|eczema|psoriasis|ibs|hay fever|tinnitus|autism|asperger's|ptsd|"
    r"anemia|anaemia|crohn's(?: disease)?|multiple sclerosis|insomnia|sleep apn(?:o)?ea|"
    r"vertigo|claustrophobia|a fear of \w+|(?:a|an) (?:[\w-]+ ){0,3}(?:allergy|intolerance|"
    r"disability|pacemaker|heart condition|phobia|hearing aid)|(?:[\w-]+ ){0,3}allergies)",
    "language": r"(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|"
    r"ukrainian|czech|slovak|hungarian|romanian|bulgarian|greek|turkish|arabic|hebrew|persian|"
    r"farsi|hindi|urdu|bengali|tamil|telugu|punjabi|gujarati|mandarin|cantonese|chinese|japanese|"
    r"korean|vietnamese|thai|indonesian|malay|tagalog|swahili|yoruba|igbo|zulu|amharic|swedish|"
    r"norwegian|danish|finnish|icelandic|estonian|latvian|lithuanian|irish|welsh|catalan|basque|"
    r"croatian|serbian|slovenian|albanian|afrikaans|british english|american english|"
    r"british spelling|american spelling)",
    "demonym": r"(?:american|british|english|scottish|welsh|irish|german|austrian|swiss|french|"
    r"spanish|italian|portuguese|dutch|belgian|polish|czech|slovak|hungarian|romanian|bulgarian|"
    r"greek|turkish|russian|ukrainian|swedish|norwegian|danish|finnish|canadian|australian|"
    r"brazilian|argentinian|mexican|colombian|chilean|peruvian|indian|pakistani|bangladeshi|"
    r"chinese|japanese|korean|vietnamese|thai|indonesian|filipino|nigerian|kenyan|ghanaian|"
    r"egyptian|moroccan|iranian|iraqi|israeli|lebanese|syrian|jewish|muslim|catholic|christian|"
    r"hindu|buddhist)",
    "act": r"(?:(?:use|adopt|go with|switch to|switch from|migrate|ship|store|deploy|release|support|"
    r"host|rename|replace|stick (?:with|to)|standardi[sz]e|require|postpone|launch|target|split|"
    r"stop (?:using|supporting)|publish|limit|not (?:use|support|ship|build|allow)|implement|"
    r"rewrite|port|hire|license|open[- ]source|deprecate|outsource|homeschool|get married)\b|"
    r"(?:move|keep|drop|write|build|run|base|make|remove|merge|call|name|put) "
    r"(?=[^?]{0,80}(?:(?-i:[A-Z][a-z])|\b(?:by default|only|all|every|instead of|always)\b))(?!going|it )"
    r"\w)",
    "standing": r"(?:use|answer|reply|respond|write|run|call|add|put|include|commit|push|merge|"
    r"deploy|delete|remove|ask|check|test|format|keep|give|show|explain|prefer|start|end|send|"
    r"store|log|name|round|quote|cite|speak|address|assume|avoid|mention|suggest|recommend|"
    r"create|make|touch|edit|change|tell|translate|convert|follow|sign|document|review|rebase|"
    r"squash|pin|install|import|return|validate|share|book|order|generate|provide|refer|"
    r"encrypt|back up|overwrite|hard-?code|expose|skip|propose|apologi[sz]e|summari[sz]e|output|"
    r"print|type|wrap|lint|bump|tag|publish|upload|email|schedule|interrupt|talk|bring up|link|"
    r"attach|sort|do|be (?:brief|concise|polite|formal|direct|honest))",
    "project": r"(?:project|repo|repository|codebase|code base|team|company|app|application|"
    r"service|organi[sz]ation|org|monorepo|library|package|product|startup|lab|school|"
    r"department|household|family)",
    "part": r"(?:backend|back end|back-end|frontend|front end|front-end|server|database|api|app|"
    r"application|site|website|service|cluster|pipeline|ci|build|docs|documentation|library|"
    r"cli|client|bot|daemon|infrastructure|worker|queue|cache|game|plugin|codebase|project|"
    r"production|staging|prod|repo|repository|system|platform|product|data warehouse)",
    "tools": r"(?!(?:too|so|a lot|it|this|that|these|those|the|some|many|your|both|for|to|them|as|"
    r"in|on|only|every|all|more|less|much|a similar|the same|a different|each|our|my|no|one|up|him|her|what|whatever|"
    r"something|anything|words|here)\b)[^\W\d_]",
}

_NOT_NAMES = (
    r"(?!(?:mud|not|on|in|a|an|the|at|also|listed|spelled|spelt|missing|wrong|misspelled|being|"
    r"going|now|written|there|here|too|very|so|by|to|for|nobody|no one|what|your|my|our|this|"
    r"that|it|displayed|shown|changed|all|still|always|just|only|really|taken|used|cut|hard|"
    r"long|short|unusual|common|rare|different|easy|difficult|empty|null|undefined|currently|"
    r"correct|incorrect|next|first|last|legion|later|maybe|back|when|if|crazy|old|anytime|"
    r"tomorrow|today|tonight|on|as|after|before|asap|again|and|or|stupid|paranoid|skeptical|"
    r"whatever|names|out|up|over|lazy|weird|picky|biased|using|from|with|ok|okay|sorry|sure|"
    r"glad|happy|sad|tired|busy|ready|done|fine|good|great|back|able|about|afk|lost|stuck)\b)"
)

_PERSONAL = (
    Rules(
        (
            rf"my (?:full |first |last |real |given |middle |maiden |legal |family |nick|sur|user )?"
            rf"name(?:'s| is) (?:also )?(?:actually )?{_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"my name is {_NOT_NAMES}<name>",
            r"my (?:sur|last |first |middle )?name is (?:spelled|spelt|pronounced|written) \w",
            rf"(?:please |just |you can |you may |people |everyone |everybody |my friends |friends |"
            rf"most people )*calls? me {_NOT_NAMES}(?:<name>)(?=\s*(?:$|[^\w\s]|(?:instead|and|"
            rf"but|from|because|not|for short)\b))",
            r"(?:please )?(?:address|refer to) me as <name>",
            rf"i(?: usually| mostly)? go by (?:the name |the nickname )?(?:of )?{_NOT_NAMES}<name>",
            rf"<im> (?:called|named) {_NOT_NAMES}<name>",
            rf"<im> {_NOT_NAMES}(?!(?:<demonym>)\b)(?-i:[A-Z][a-z]+)(?: <cap>)?,? (?:and <im> |and i "
            rf"(?:run|work|live|study|am|manage|own|lead|teach)|(?:a|an|your|the|your new) (?:[\w-]+ ){{0,4}}"
            rf"(?:<job>|assistant|user|guy|person|owner)\b|from <cap>|\d+ years)",
        ),
        topic="user.name",
        confidence=0.95,
    ),
    Rules(
        (r"my pronouns are \w", r"i(?: go by| use) (?:the pronouns )?\w+/\w+"),
        topic="user.pronouns",
        confidence=0.95,
    ),
    Rules(
        (
            r"my birthday(?:'s| is| falls| will be)(?: on| in)? <date>",
            r"i was born (?:on|in) (?:<date>|\d{4}|(?:the )?<cap>)",
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
        ),
        topic="user.origin",
        confidence=0.85,
    ),
    # Without a topic: one moves to another language or database, too.
    Rules((r"(?:<ive>|i|we|we've) (?:just |recently |finally )?moved to (?!<day>|<month>)<cap>",)),
    Rules((r"<im> (?:a |an )?<demonym><end>",), topic=None, confidence=0.8),
    Rules(
        (
            r"my (?P<thing>(?:text |code )?editor|ide|os|operating system|shell|terminal|browser|keyboard layout|"
            r"distro|window manager|main language|bank|blood type|dentist|gym)(?: of choice)? is "
            r"(?!not|down|slow|broken|so|too|very|the|this|that|crash|freez|frozen|stuck|acting|in|on|being)\w",
        ),
        topic="user.{thing}",
    ),
    Rules((r"my (?:local )?time ?zone is \w",
           r"<im> (?:in|on) (?:the )?[A-Za-z]+(?:/\w+)? (?:time|timezone|time zone)<end>"), topic="user.timezone", confidence=0.95),
    Rules(
        (
            r"my (?P<thing>work |private |personal |business |new |school )?e-?mail(?: address)?"
            r"(?:'s| is) <email>",
            r"(?:you can )?(?:reach|e-?mail|contact|write) (?:to )?me (?:at|on|under|via) <email>",
        ),
        topic="user.email",
        confidence=0.95,
    ),
    Rules(
        (
            r"my (?:work |private |personal |cell |mobile |new |home |office |tele)*"
            r"(?:phone|mobile|cell|number|phone number|cell number|mobile number)(?:'s| is) <number>",
            r"(?:you can )?(?:reach|call|text|contact) me (?:at|on|under|via) <number>",
        ),
        topic="user.phone",
        confidence=0.95,
    ),
    Rules(
        (
            r"my (?P<thing>github|gitlab|twitter|discord|telegram|slack|instagram|linkedin|mastodon|"
            r"bluesky|reddit|steam|skype|signal) (?:handle|username|user name|account|user|id|name|"
            r"profile|nick)(?:'s| is) (?!(?:not|on|in|the|a|down|broken|hacked)\b)\S",
        ),
        topic="user.{thing}",
        confidence=0.95,
    ),
    Rules(
        (
            r"i <very>work (?:for|at) (?:<name>|(?:an?|the) (?!moment|time|same|best|while|living|"
            r"bit|long|few|minute|day|week|lot|weekend|office|desk|table|kitchen)\w+)",
            r"my employer is <cap>",
            r"<ive>(?: been)? work(?:ing|ed) (?:for|at) (?:<cap>|an? )",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"i <very>work as (?:an?|the) \w",
            r"<ive>(?: been)? work(?:ing|ed) as (?:an?|the) \w",
            r"my (?:job|profession|occupation|job title|role at \w+) is "
            r"(?:(?:being )?an? (?:[\w-]+ ){0,3}<job><end>|(?-i:[A-Z]))",
            r"<im> (?:currently |also |now )?(?:an?|the) (?:[\w-]+ ){0,4}<job><end>",
            r"<im> (?:currently |now )?(?:retired|self-employed|unemployed)<end>",
            r"i <very>work in (?:the )?(?:marketing|finance|it|healthcare|hr|sales|education|"
            r"tech|law|banking|construction|insurance|retail|hospitality|logistics|publishing|"
            r"advertising|research|academia|accounting|consulting|real estate|customer service|"
            r"customer support|manufacturing|agriculture|security|design|media|film)\b",
            r"i <very>teach [\w ]+(?:at|in|to)\b",
            r"i (?:run|own|manage|lead|founded) (?:an?|the|my own) (?:[\w-]+ ){0,4}(?:company|shop|"
            r"store|business|restaurant|bakery|café|cafe|farm|agency|studio|team|startup|school|"
            r"firm|clinic|practice|hotel|bar|gym|blog|department|salon)\b",
        ),
        topic="user.job",
        confidence=0.85,
    ),
    Rules(
        (
            r"i <very>study (?!for|hard|it|this|that|the|a lot|more|too|with)\w+(?: \w+){0,3} "
            r"(?:at|in) <cap>",
            r"<im> (?:currently )?(?:studying|majoring in) (?!for|hard|it|this|that|the )\w+"
            r"(?: \w+){0,3} (?:at|in) <cap>",
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
            rf"(?:my|our) <relation>(?:'s|s)? (?:full |first |nick)?name(?:'s| is) {_NOT_NAMES}<word>",
            rf"(?:my|our) <relation>(?:'s| is| are)(?: called| named) {_NOT_NAMES}<word>",
            r"(?:my|our) <relation>(?:'s| is) (?-i:[A-Z])[\w'-]+<end>",
            r"(?:my|our) <relation>,? (?-i:[A-Z])[\w'-]+,? (?:is|works|lives|has|was born|turns|"
            r"loves|hates|likes|studies|goes to)\b",
            r"(?:my|our) (?:<relation>|kids|children|parents) (?:is|are) (?:<very>)(?:allergic|"
            r"vegan|vegetarian|pescatarian|lactose|gluten|diabetic|autistic|deaf|blind|"
            r"colou?r-?blind|\d{1,3}(?: years old| months old)?<end>|an? (?:[\w-]+ ){0,3}<job>|"
            r"from <cap>|<demonym>)",
            r"(?:my|our) (?:<relation>|kids|children|parents) (?:<very>)(?:uses? a wheelchair|"
            r"ha(?:s|ve) <illness>|works? (?:as|at|for) |lives? in <place>|speaks? <language>)",
            r"(?:my|our) <relation>(?:'s)? birthday is (?:on |in )?<date>",
            r"(?:i|we|<ive> got|we've got) (?:have )?<count> (?:[\w-]+ ){0,2}<family><end>",
            r"(?:i|we) have <count> (?:[\w-]+ ){0,2}<family>,? (?:named|called|aged|ages|(?-i:[A-Z]))",
            r"(?:i|we) have <count> (?:[\w-]+ ){0,2}(?:<family>|dog|cat|pet|goldfish|bird)s? "
            r"(?:named|called) \w",
            r"<im> (?:happily |recently |newly )?(?:married|divorced|widowed|single|engaged)"
            r"(?=\s*(?:$|[.,!]|(?:and|since) |to (?:<cap>|an? )))",
            r"<im> (?:the |an? )?(?:\w+ ){0,2}(?:mother|father|parent|mom|mum|dad|grandmother|grandfather) "
            r"(?:of|to) \w",
            r"(?:my|our) <relation>'s (?:school|teacher|doctor|kindergarten|birthday|college|coach) is "
            r"(?:<cap>|<date>)",
            r"(?:my|our) (?:kids|children|sons|daughters|parents|dogs|cats)(?:'s?)?(?: names)? are (?:called |"
            r"named )?(?-i:[A-Z])[\w'-]+(?:,| and)",
            r"(?:my <only_one>|my family) and i (?:<very>)(?:live in <place>|are (?:vegan|vegetarian)|have "
            r"<count> (?:[\w-]+ ){0,2}<family>)",
            r"<ive> been (?:happily )?(?:married|divorced|vegan|vegetarian|sober) (?:for|since)\b",
        ),
        topic=None,
        confidence=0.85,
    ),
    Rules(
        (r"(?:my|our) (?:\w+ ){0,2}?(?P<thing><person>)(?:'s| is)(?: called| named)? (?-i:[A-Z])[\w'-]+",),
        topic="{thing}",
        about_user=None,
    ),
    Rules(
        (
            r"<im> (?:<very>)(?:allergic|intolerant) to (?!your|you|this|that|mondays|people|work|"
            r"bullshit|stupid|nothing|drama)\w",
            r"<im> (?:<very>)(?:lactose|gluten)[- ]intolerant",
            r"<im> (?:<very>)(?:an? )?(?:<very>)(?:vegan|vegetarian|pescatarian|teetotal|c(?:o)?eliac|"
            r"diabetic|dyslexic|colou?r[- ]?blind|left[- ]handed|deaf|hard of hearing|blind|"
            r"autistic|epileptic|asthmatic|gluten[- ]free|dairy[- ]free)<end>",
            r"i (?:<very>)(?:have|suffer from) (?:severe |mild |chronic |bad )?<illness>",
            r"(?:i was|<ive> been) (?:recently |just )?diagnosed with \w",
            r"i (?:can'?t|cannot|can not|don'?t) have (?:any )?(?:caffeine|dairy|gluten|nuts|alcohol|sugar|"
            r"lactose|soy|eggs|meat|wheat|seafood|shellfish|salt|pork)\b",
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
            r"i play (?:the )?(?:guitar|piano|violin|viola|cello|drums|bass|flute|saxophone|trumpet|harp|"
            r"clarinet|ukulele|football|soccer|tennis|chess|basketball|rugby|hockey|golf|badminton|"
            r"volleyball|cricket)\b",
            r"i collect (?!the|data|this|that|them|some|my)\w",
            r"my hobb(?:y is|ies are|ies include) \w",
            r"i spell my (?:last |first |sur)?name \w",
            r"i report to (?-i:[A-Z])\w+",
            r"i use (?:an? )?[\w.+#-]+(?: [\w.+#-]+){0,2} (?:for everything|as my|every day|daily|for (?:all|"
            r"most)(?: of)? my|at work|on (?:all )?my)\b",
            r"i run <cap> on (?:all )?my\b",
            r"i (?:go|have|do|play|take|run|swim|train|meet|teach|visit|practi[sc]e|work out|volunteer)"
            r"[\w' -]{0,40} (?:every|each) (?:<day>|morning|week|weekday|weekend|month|summer|other|second)",
            r"i can only (?:meet|work|talk|call|do) [\w ]{0,20}(?:on|in|before|after) (?:the )?(?:<day>|"
            r"mornings|afternoons|evenings|weekends|weekdays|\d)",
            r"<im> not an? (?:morning|night|cat|dog|coffee|tea|people) person",
            r"i (?:drive|own|ride) (?:an?|my) (?:[\w-]+ ){0,3}(?:<cap>|\d{4}|bike|motorcycle|car|van)",
            r"(?:my|our) (?:car|laptop|phone|computer|main machine|work laptop|camera|bike) is an? "
            r"(?:[\w-]+ ){0,2}(?:<cap>|\d{4})",
        ),
        topic=None,
    ),
)

_PREFERENCES = (
    Rules(
        (
            r"i (?:<very>)prefer (?P<first>(?!not |the (?:first|second|third|last|other|new|old) )"
            r"[\w'-]+(?: [\w'-]+){0,3}) (?:over|rather than|instead of) "
            r"(?P<second>[\w'-]+(?: [\w'-]+){0,3})<end>",
            r"i (?:<very>)prefer (?P<first>(?!not )[\w'-]+) to (?P<second>[\w'-]+)<end>",
            r"i (?:<very>)(?:prefer|favou?r) (?P<rest><object>)",
            r"(?:my|our) preference is (?:to|for|that|always) \w",
            r"i(?:'d| would) rather (?=[^?]{3,80}\b(?:always|in general|generally|every time)\b)",
            r"i <very>learn (?:best|better) (?:by|with|through|from|in|when)\b",
        ),
        topic="preference:{thing}",
        kind="preference",
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"i (?:<very>)(?:like|love|enjoy|adore|dislike|hate|loathe|detest|despise|"
            r"can'?t stand|cannot stand|can not stand|don'?t (?:really |particularly )?(?:like|enjoy)|"
            r"do not (?:like|enjoy)) (?P<rest><object>)",
            r"<im> (?:not )?(?:a (?:big |huge )?fan of|fond of|addicted to|obsessed with|afraid of|"
            r"scared of) (?P<rest><object>)",
            r"i have a strong (?:preference for|aversion to|dislike (?:of|for)) (?P<rest>\S)",
        ),
        topic="preference:{thing}",
        kind="preference",
        confidence=0.75,
        general=True,
    ),
    Rules(
        (
            r"my (?:all-time |absolute |personal )?favou?rite (?P<thing>(?!part|thing about|line|bit|"
            r"moment|scene|one|example|version|answer|option|of)[\w-]+(?: [\w-]+){0,3}?)"
            r"(?:'s| is| are) (?!that|this|how|when|the (?:first|second|third|last|one)|by far)\w",
            r"(?P<thing>)<name> is my (?:all-time |absolute )?favou?rite [\w-]+",
        ),
        topic="preference:favourite {thing}",
        kind="preference",
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"i (?:always|never|only|usually|mostly|typically) (?:eat|drink|smoke|use|fly|travel|wear|"
            r"buy|watch|cook|sleep|order|pay|commute|shop|take (?:my|the (?:train|bus|stairs)))\b",
            r"i (?:don'?t|do not|can'?t|cannot|can not) (?:eat|drink|smoke|consume|celebrate|drive|"
            r"tolerate|speak) (?!anything|another|much|all|any more|now|that|this|it|more|enough|to|up|out|for|at|about|and)\w",
            r"i (?:take|drink|have) my (?:coffee|tea|steak|eggs) \w",
            r"i avoid (?!it|this|that|the)\w",
            r"i (?:only |mostly |usually |always )?work (?:from home|remotely|nights|night shifts|part[- ]time|"
            r"full[- ]time|shifts|freelance)\b",
            r"i (?:usually|always|normally|mostly) (?:get up|wake up|go to bed|go to sleep|start work) "
            r"(?:at|around|before|after) \d",
            r"i (?:keep|eat) (?:kosher|halal)\b",
            r"i follow an? (?:[\w-]+ ){0,3}diet\b",
        ),
        topic=None,
        kind="preference",
        general=True,
    ),
)

_STANDING = (
    Rules(
        (
            r"(?:please )?(?:always )?(?:answer|reply|respond|speak|write|talk|use)(?: to me| me)?"
            r"(?: only| always)?(?: in)? <language>(?: spelling)? (?=[^?]{0,30}(?:from now on|always|"
            r"in future))",
            r"(?:please )?always (?:answer|reply|respond|speak|write|talk)(?: to me| me)? in \w",
            r"(?:from now on|going forward|in future|in the future|henceforth|from here on),? "
            r"(?:please )?(?:always )?(?:only )?(?:answer|reply|respond|speak|write|talk|use)"
            r"(?: to me| me)?(?: only)?(?: in)? (?:plain |simple )?<language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:please )?(?:always|never|don'?t ever|do not ever) <standing> (?!mind|again|up\b)"
            r"(?![^?]{0,80}\b(?:them|it|(?:this|that)[.!]*$))\S",
            r"(?:from now on|going forward|from here on|henceforth|from today on),? (?:please )?"
            r"(?!we'll see|we will see|things|i'?ll|i will|i'?m |i am )\S",
            r"in (?:the )?future,? (?:please )(?:don'?t |do not |only |always |never )?<standing>\b",
            r"in (?:the )?future,? (?:don'?t|do not|always|never|only) <standing>\b",
            r"(?:please )?(?:don'?t|do not) <standing> [^?]{2,80}\bever(?: again)?[.!]*$",
            r"(?:for|in) (?:this|our) <project>,? (?:the rule is|all|every|always|never|no) ?:? ?\w",
            r"(?:the|our) rule (?:here |in (?:this|our) <project> )?is(?: that|:| to) \w",
            r"(?:please )?(?:don'?t |do not |only |stop )?(?:<standing>|using|adding|calling) [^?]{2,80} "
            r"(?:from now on|going forward|in future)\b",
            r"(?:make sure|be sure|remember|try) to (?:always|never) <standing>\b",
            r"i(?:'d like| would like| want| need| expect)? you to (?:always|never) \w",
            r"you (?:should|must|have to|need to|can) (?:always|never) <standing>\b",
            r"(?:you (?:should|must)|please) (?:under no circumstances|never ever) \w",
        ),
        topic=None,
        kind="requirement",
        about_user=None,
        confidence=0.85,
    ),
)

_PROJECT = (
    Rules(
        (
            r"(?:we|our team|the team|my team|the board|the committee|management|i)(?:'ve| have| has)? "
            r"(?:finally |just |already |all |also |now )?(?:decided|agreed|opted|voted|resolved) "
            r"(?:to <act>|that \w|against using \w|on (?:using )?<tools>)",
            r"(?:we|our team|the team|my team|i)(?:'ve| have| has)? (?:finally |just |already |all )?"
            r"(?:decided|settled|opted|agreed) (?:on|for) (?!an? |the |lunch|dinner|it|this|that)"
            r"\S",
            r"(?:we|our team|the team|my team)(?:'ve| have| has)? (?:finally |just |already )?"
            r"(?:chose|chosen|picked|selected) (?!it|this|that|the|up|out|you|your|to)"
            r"(?:<cap>|Q|[^?]{2,60} (?:for|as|instead of|over) )",
            r"(?:the|our) (?:final )?(?:decision|agreement|consensus) (?:is|was) (?:to|that) \w",
            r"it (?:was|has been|is) (?:decided|agreed) (?:that|to) \w",
            r"decision: \S",
            r"we(?:'re| are) (?:going with|sticking with|standardi[sz]ing on|switching to|moving to|"
            r"migrating to) (?!it|this|that|the |option|a |your|plan|my )\S",
            r"we(?:'re| are| will|'ll) (?:going to |gonna )?(?:use|deploy|ship|host|write) [^?]{2,80}"
            r"(?:from now on|going forward|for all)\b",
        ),
        topic=None,
        kind="decision",
        about_user=False,
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:the|our|my) (?P<thing>(?:[\w'-]+ ){0,4}(?:deadline|due date|release date|launch date|"
            r"cut-?off(?: date)?|submission date|closing date|go-live date|move-in date|wedding date|"
            r"exam date)(?: (?:for|of) [\w' -]{2,60}?)?)(?:'s| is| falls)(?: set)?(?: on| for| by|:)? "
            r"(?:now )?(?:<date>|(?:next )?<day>|\w+ <date>|(?:next )?<day>,? <date>)",
            r"(?:deadline|due date)(?: for [\w' -]{2,60}?)?(?: is|:) ?(?:on )?(?:<date>|<day>)",
            r"(?:the|our|my|this) (?P<thing>[\w' -]{2,50}?) (?:is|are) due (?:on |by |in )?(?:<day>,? )?"
            r"<date>",
            r"(?:the |our |my |this )?(?P<thing>[\w' -]{2,50}?) (?:has|have|needs|need|must)(?: to)? be "
            r"(?:submitted|finished|delivered|ready|done|filed|handed in|complete|completed|live|"
            r"shipped|released|paid|sent|turned in)[\w ]{0,20} (?:by|on|before|until) (?:<day>,? )?"
            r"(?:the )?(?:end of )?<date>",
            r"(?:we|i) (?:have|need) to (?:submit|deliver|finish|file|hand in|ship|release|launch) "
            r"(?P<thing>[\w' -]{2,50}?) (?:by|on|before) <date>",
            r"we(?:'re| are| will)? (?:launch|ship|release|go live|launching|shipping|releasing|going "
            r"live) (?P<thing>)[\w ]{0,20}on <date>",
            r"(?:my|our) (?P<thing>(?:[\w-]+ ){0,2}(?:flight|wedding|exam|appointment|surgery|"
            r"interview|anniversary|trip|conference|graduation|move|defen[cs]e|marathon|launch))"
            r"(?:'s| is| takes place| happens)(?: scheduled| planned| set)?(?: on| for)? <date>",
        ),
        topic="deadline:{thing}",
        kind=None,
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:in|for|on|at) (?:this|our|the|my) (?:\w+ )?<project>,? (?:we|i) (?:<very>)(?:use|write|"
            r"follow|keep|store|deploy|name|put|run|prefer|require|never|don't use|do not use) \S",
            r"(?:we|our <project>|this <project>|the <project>|my <project>|my team) (?:<very>)(?:uses?|"
            r"follows?|deploys? (?:to|with|via|on)|runs? on|targets?|is built (?:with|on|in)|"
            r"is written in|standardi[sz]es on|practi[sc]es?) <tools>",
            r"we (?:always|never|only) (?:squash|merge|rebase|review|deploy|use|write|commit|tag|release|test|"
            r"format|run|meet|ship|pin|branch|document|lint|buy|eat|fly)\b",
            r"(?:our|the) <part> (?:only (?:accepts|supports|allows|works with|runs on)|requires) \w",
            r"(?:our|the|my) (?:\w+ ){0,2}(?:url|endpoint|server|repo|repository|wiki|port|domain|website|blog|"
            r"ip|ip address|homepage|portfolio)(?: address)?(?: is| lives)(?: located)?(?: at| on| in)? "
            r"(?=https?://|port \d|\d{2,}|[\w-]+\.[a-z]{2,})\S",
            r"(?:our|the|my) (?:\w+ ){0,2}budget (?:for [\w ]{2,40} )?is [^\d?]{0,20}\d",
            r"(?:the|our|my|we have|there is|there's) [\w' -]{2,50}? (?:is |are |meets? |happens? )?(?:every|each) "
            r"(?:<day>|day at|week|weekday|other|second|month|morning)\b",
            r"we (?:don'?t|do not|never) (?:use|deploy|merge|commit|push|ship|release|support|allow) "
            r"<tools>",
            r"we (?:<very>)(?:deploy|release|ship|meet|merge|publish) (?:every|on|to|via|with|from|"
            r"once|twice) \w",
            r"(?:our|the team's|the) (?:\w+ ){0,2}(?:convention|code style|coding style|style guide|"
            r"tech stack|stack|policy|naming convention|naming scheme|commit style|"
            r"branching model|line length|package manager|test framework|build tool|formatter|linter)"
            r"s? (?:is|are|requires|says)(?: that| to)? (?!down|broken|a mess|bad|ugly|slow|terrible|"
            r"not|wrong|missing|too|so|very|unclear|great|good|nice|fine)\S",
            r"(?:our|the|my) (?:\w+ ){0,2}(?:stand-?up|sprint|retro|retrospective|team meeting|"
            r"fiscal year|release cycle|on-call rotation|weekly|office hours|one-on-one)s? "
            r"(?:is|are|starts?|begins?|lasts?|takes place|happens?) (?=[^?]{0,60}(?:\b(?:every|daily|"
            r"weekly|each|<month>|<day>|days|weeks)\b|\d))",
            r"(?:our|the|my) (?:\w+ ){0,2}<part> (?:is|are) (?:written|built|hosted|deployed|based|"
            r"implemented|developed|running) (?:in|on|with|at|to|via|by) <tools>",
            r"(?:our|the|my) (?:\w+ ){0,2}<part> (?:runs|uses|lives|listens|speaks) (?:on |in |at |under )?"
            r"(?!out\b)(?:(?:port )\d+|<cap>|Q)",
            r"(?:our|the) (?:main|default|release|development|production) branch is (?:called |named )?"
            r"(?!broken|red|green|down|failing|not|ahead|behind|protected now)[\w`Q]",
            r"(?:all )?(?:unit |integration )?tests (?:go|live|are|belong) (?:in|into|under) \S",
            r"all (?:[\w-]+ ){1,4}(?:must|have to|need to|should|shall|are to) (?:be|have|use|go|"
            r"follow|pass|include|contain|end|start|come)\b",
            r"every (?:[\w-]+ ){1,3}(?:must|has to|needs to) (?:be|have|use|go|follow|pass|include)\b",
            r"our (?:clients|customers|users|office|company|team|headquarters|fiscal year|store|shop) "
            r"(?:is|are) (?:based|located|closed on|open|headquartered|called|mostly|(?:at|in) (?:<cap>|\d))",
            r"(?:our|my) (?:company|startup|team|band|project|app|business|product|firm|shop|blog|"
            r"podcast|boat|channel)(?:'s name)? is (?:called|named) \S",
        ),
        topic=None,
        kind=None,
        about_user=False,
        confidence=0.8,
        general=True,
    ),
)

TABLE = Table(
    code="en",
    rules=_PERSONAL + _PREFERENCES + _STANDING + _PROJECT,
    explicit=(
        r"(?:please |pls |and |also |so |but )*(?:do )?(?:remember|memori[sz]e|don'?t forget|do not forget|never forget|make a note|take note|make sure (?:to|you) "
        r"remember|try to remember|note down|write down)(?: for (?:later|next time|the future|future "
        r"(?:chats|reference)))?(?: (?:that(?! (?:time|one|song|movie|film|day|guy|girl|night|place|"
        r"thing|bit|part|episode|was|is|when)\b)|this(?= ?:))|:)[:,]? (?!(?:you(?:'re| are| can|'ve|'ll)|this|that|it|it's|these|those)\b)",
        r"(?:please |pls )?(?:remember|keep in mind|don'?t forget),? (?=(?:i|my|we|our|i'm|im)\b)"
        r"(?!(?:my (?:password|login)|i'?m (?:always )?here|we(?:'re| are))\b)",
        r"(?:please |pls )?(?:save|store|add|put|keep|commit)(?: this| that| it| the following)?"
        r"(?: fact)? (?:in|to|into) (?:your )?memory[:,]? (?:that )?",
        r"(?:can|could|will|would) you (?:please )?(?:remember|keep in mind|note|make a note) that "
        r"(?=(?:i|my|we|our|i'm|im|the)\b)",
        r"i(?:'d like| want| need| would like) you to (?:remember|know|keep in mind) that ",
        r"(?:please |pls |and |also |so |but )*(?:bear in mind|keep in mind)(?: that|:) (?=(?:i|i'?m|my|we|we're|"
        r"our|all|every|always|never)\b)",
        r"for (?:your )?(?:future|later) reference[:,]? ",
        r"for the record[:,]? (?=(?:i|my|we|our|i'm)\b)",
    ),
    openers=r"ok|okay|oh|ah|and|but|so|also|btw|by the way|anyway|anyways|well|hi|hello|hey|"
    r"hi there|hey there|hello there|good (?:morning|evening|afternoon)|thanks|thank you|thx|"
    r"cheers|sure|yes|yeah|yep|no|nope|actually|honestly|personally|first of all|just so you know|"
    r"just fyi|fyi|for next time|for context|for info|some context|quick note|note|"
    r"side note|one more thing|another thing|oh and|please note(?: that)?|note that|just note that|"
    r"i should (?:also )?(?:mention|say|add|note)(?: that)?|i forgot to (?:mention|say)(?: that)?|"
    r"did i mention(?: that)?|as you know|you should know(?: that)?|you know|i have to say(?: that)?|"
    r"let me introduce myself|about me|a bit about me|the thing is(?: that)?|ps|p\.s\.|reminder|important|"
    r"update|correction|in general|generally|generally speaking|in fact|to be clear|unfortunately|"
    r"as a rule|be aware(?: that)?|i want you to know(?: that)?|just to let you know|"
    r"just letting you know|let me add(?: that)?|i'd like to add(?: that)?|right|good|great|perfect|cool|"
    r"awesome|nice|for me|as for me|because|since|as|though|although|then|or|plus|while|given(?: that)?|"
    r"considering(?: that)?|seeing as|especially since|especially as|mind you",
    conjunctions=r"and|but|so|because|since|as|though|although|plus|while|given that|considering",
    starters=r"don'?t|do not|never|always|keep|i|i'?m|i'?ve|i'?d|i'?ll|we|we're|we've|we'll|my|our|please|pls|let's|lets|you|"
    r"help|give|show|tell|here's|here is|now|thanks|thank you|but|then|so|it|it's|its|that|that's|this|they|he|she|there",
    questions=r"can|could|would|will|do|does|did|is|are|was|were|should|shall|what|what's|whats|how|"
    r"which|who|where|when|why|any|am|have you|has|may|might|don't you|isn't|aren't|right|ok|okay",
    doubts=r"if|unless|whether|maybe|perhaps|possibly|probably|might|may (?:be|have|not|prefer|want|like|need|move)|would|could|not sure|unsure|"
    r"i think|i guess|i suppose|i doubt|i assume|i believe|i feel|i wonder|i hope|i wish|hopefully|"
    r"seems?|apparently|supposedly|used to|sort of|kind of|kinda|sometimes|"
    r"said|says|say|saying|told|tells|thinks|claims|claimed|asked|joked|joking|kidding|jk|"
    r"sarcas\w+|yeah right|oh great|oh joy|sure because|as if|not that|not true|isn't true|"
    r"no idea|don't know|dunno|haven't|hasn't|not yet|undecided|considering|thinking (?:of|about)|"
    r"depends|depending|almost|nearly|as a user|for example|e\.g\.|for instance|"
    r"let's say|would've|wouldn't|scenario|fictional|hypothetical|in this (?:story|game|example)|until recently",
    conditions=r"if|as an ai|as a (?:large )?language model|unless|suppose|supposing|imagine|pretend|assume|assuming|assumed|hypothetically|"
    r"what if|as though|when i was|in the (?:story|movie|film|book|song|game|novel|poem|dream)|"
    r"in my dream|the character|roleplay|role-play|oh great|yeah right|translate|"
    r"sentence|phrase|example|never said|lyrics?|maybe|perhaps|not sure|said|told me|let's say|sure,? because|just kidding",
    passing=r"today|tonight|tomorrow|yesterday|right now|at the moment|for now|this (?:morning|"
    r"afternoon|evening|week|weekend|time|month)|next (?:hour|minutes?)|in (?:a|an|\d+|ten|five) "
    r"(?:minutes?|hours?|sec\w*)|(?:only )?(?:have|got) \w+ (?:minutes?|hours?)|brb|last (?:night|week|weekend)|for the moment|just now|until \d+|"
    r"temporarily|for a (?:bit|while|few)|these days|lately",
    deictic=r"your|yours|you|them|those|following|mentioned|(?:to|in|of|about|with|for|on|at) that|this(?! (?:<project>)\b)|these|here|above|below|option|version|"
    r"suggestion|suggestions|idea|answer|draft|paragraph|sentence|(?:first|second|third|last|"
    r"other|latest|previous|next) (?:one|option|version|approach|idea|part|paragraph|solution|"
    r"sentence|suggestion|way|of)|approach|better(?! than)|so much|so far|each other|right|it(?! (?:was|has been|is) (?:decided|agreed))",
    refusals=r"(?:don'?t|do not|please don'?t|never|not to|no need to) (?:\w+ )?(?:remember|save|"
    r"store|memori[sz]e|record|note) (?:this|that|it|any|what|my|anything|the (?:following|above))|"
    r"(?<!don't )(?<!dont )(?<!not )(?<!never )forget (?:that|this|about|what|it|everything|i|my)|"
    r"off the record|between (?:you and me|us)|keep (?:this|it) (?:off|out of)",
    tasks=r"(?:(?:please|can you|could you|pls|kindly|now|then|and|i want you to|i need you to|"
    r"would you|help me|help me to|let's|lets|ok|okay|hey|hi),? )*(?:translate|rewrite|rephrase|"
    r"paraphrase|proofread|correct|summari[sz]e|edit|polish|improve|shorten|act (?:as|like)|pretend|"
    r"imagine|role-?play|play (?:the role|a)|you are (?:an?|the|now|my)|your name is|suppose|"
    r"assume|act|fix (?:the |my )?(?:grammar|spelling|wording)|check (?:the |my )?(?:grammar|"
    r"spelling)|(?:write|create|make|draft|compose|tell|generate)(?: me| us)? (?:an? |the |some |my )?"
    r"(?:[\w-]+ ){0,4}(?:story|poem|song|script|dialogue|dialog|scene|novel|monologue|speech|"
    r"character|essay|email|e-mail|letter|post|tweet|bio|review|haiku|rap|lyrics|joke|message|"
    r"sentences?|caption|blog|article|paragraph|reply|text|response|statement|description)|"
    r"here(?:'s| is| are) (?:the|my|a|an|some|our) (?:[\w-]+ ){0,3}(?:text|email|essay|draft|letter|"
    r"story|article|paragraph|message|transcript|script|poem|notes|bio|resume|cv|conversation|"
    r"chat|dialogue|excerpt|passage|prompt|code|log|output)|how (?:do|would|to) (?:you |i )?(?:say|"
    r"write|translate)|this is (?:the|my|a|an) (?:[\w-]+ ){0,3}(?:text|email|essay|draft|letter|story|"
    r"article|paragraph|transcript|conversation|prompt)|what does|given the following|"
    r"based on the following|read the following|the following)",
    first_person=r"i|i'?m|i'?ve|me|my|mine|myself",
    fragments=_FRAGMENTS,
)
