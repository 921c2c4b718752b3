"""English: what lasts, and what only looks like it."""

from __future__ import annotations

from memoryd.engine.sessions.statements.english.personal import PERSONAL
from memoryd.engine.sessions.statements.english.preferences import PREFERENCES, STANDING
from memoryd.engine.sessions.statements.english.project import PROJECT
from memoryd.engine.sessions.statements.english.words import FRAGMENTS
from memoryd.engine.sessions.statements.language import Table

TABLE = Table(
    code="en",
    rules=PERSONAL + PREFERENCES + STANDING + PROJECT,
    explicit=(
        r"(?:please |pls |and |also |so |but )*(?:do )?(?:remember|memori[sz]e|don'?t forget|do "
        r"not forget|never forget|make a note|take note|make sure (?:to|you) remember|try to "
        r"remember|note down|write down)(?: for (?:later|next time|the future|future (?:chats|"
        r"reference)))?(?: (?:that(?! (?:time|one|song|movie|film|day|guy|girl|night|place|thing|"
        r"bit|part|episode|was|is|when)\b)|this(?= ?:))|:)[:,]? (?!(?:you(?:'re| are| can|'ve|'ll)|"
        r"this|that|it|it's|these|those)\b)<no_pep_talk>",
        r"(?:please |pls )?(?:save|store|add|put|keep|commit)(?: this| that| it| the "
        r"following)?(?: fact)? (?:in|to|into) (?:your )?memory[:,]? (?:that )?",
        r"(?:can|could|will|would) you (?:please )?(?:remember|keep in mind|note|make a note) that "
        r"(?=(?:i|my|we|our|i'm|im|the)\b)",
        r"i(?:'d like| want| need| would like) you to (?:remember|know|keep in mind) that ",
        r"for (?:your )?(?:future|later) reference[:,]? ",
        r"for the record[:,]? (?=(?:i|my|we|our|i'm)\b)",
    ),
    openers=r"(?:please )?(?:keep|bear) in mind(?: that)?|(?:please )?(?:remember|don'?t "
    r"forget)(?=,? (?:i|i'?m|my|we|our)\b)|ok|okay|oh|ah|and|but|so|also|btw|by the way|anyway|"
    r"anyways|well|hi|hello|hey|hi there|hey there|hello there|good (?:morning|evening|afternoon)|"
    r"thanks|thank you|thx|cheers|sure|yes|yeah|yep|no|nope|actually|honestly|personally|first of "
    r"all|just so you know|just fyi|fyi|for next time|for context|for info|some context|quick note|"
    r"note|side note|one more thing|another thing|oh and|please note(?: that)?|note that|just note "
    r"that|i should (?:also )?(?:mention|say|add|note)(?: that)?|i forgot to (?:mention|say)(?: "
    r"that)?|did i mention(?: that)?|as you know|you should know(?: that)?|you know|i have to "
    r"say(?: that)?|let me introduce myself|about me|a bit about me|the thing is(?: that)?|ps|"
    r"p\.s\.|reminder|important|update|correction|in general|generally|generally speaking|in fact|"
    r"to be clear|unfortunately|as a rule|be aware(?: that)?|i want you to know(?: that)?|just to "
    r"let you know|just letting you know|let me add(?: that)?|i'd like to add(?: that)?|right|good|"
    r"great|perfect|cool|awesome|nice|for me|as for me|because|since|as|though|although|then|or|"
    r"plus|while|given(?: that)?|considering(?: that)?|seeing as|especially since|especially as|"
    r"mind you",
    conjunctions=r"and|but|so|because|since|as|though|although|plus|while|given that|considering",
    starters=r"don'?t|do not|never|always|keep|i|i'?m|i'?ve|i'?d|i'?ll|we|we're|we've|we'll|my|our|"
    r"please|pls|let's|lets|you|help|give|show|tell|here's|here is|now|thanks|thank you|but|then|"
    r"so|it|it's|its|that|that's|this|they|he|she|there",
    questions=r"can|could|would|will|do|does|did|is|are|was|were|should|shall|what|what's|whats|"
    r"how|which|who|where|when|why|any|am|have you|has|may|might|don't you|isn't|aren't|right|ok|"
    r"okay",
    doubts=r"if|unless|whether|maybe|perhaps|possibly|probably|might|may (?:be|have|not|prefer|"
    r"want|like|need|move)|would|could|not sure|unsure|i think|i guess|i suppose|i doubt|i assume|"
    r"i believe|i feel|i wonder|i hope|i wish|hopefully|seems?|apparently|supposedly|used to|sort "
    r"of|kind of|kinda|sometimes|said|says|say|saying|told|tells|thinks|claims|claimed|asked|joked|"
    r"joking|kidding|jk|sarcas\w+|yeah right|oh great|oh joy|sure because|as if|not that|not true|"
    r"isn't true|no idea|don't know|dunno|haven't|hasn't|not yet|undecided|considering|thinking "
    r"(?:of|about)|depends|depending|almost|nearly|as a user|for example|e\.g\.|for instance|let's "
    r"say|would've|wouldn't|scenario|fictional|hypothetical|in this (?:story|game|example)|until "
    r"recently",
    conditions=r"if|as an ai|as a (?:large )?language model|unless|suppose|supposing|imagine|"
    r"pretend|assume|assuming|assumed|hypothetically|what if|as though|when i was|in the (?:story|"
    r"movie|film|book|song|game|novel|poem|dream)|in my dream|the character|roleplay|role-play|oh "
    r"great|yeah right|translate|sentence|phrase|example|never said|lyrics?|maybe|perhaps|not sure|"
    r"said|told me|let's say|sure,? because|just kidding",
    passing=r"today|tonight|tomorrow|yesterday|right now|at the moment|for now|this (?:morning|"
    r"afternoon|evening|week|weekend|time|month)|next (?:hour|minutes?)|in (?:a|an|\d+|ten|five) "
    r"(?:minutes?|hours?|sec\w*)|(?:only )?(?:have|got) \w+ (?:minutes?|hours?)|brb|last (?:night|"
    r"week|weekend)|for the moment|just now|until \d+|temporarily|for a (?:bit|while|few)|these "
    r"days|lately",
    deictic=r"your|yours|you|them|those|following|mentioned|(?:to|in|of|about|with|for|on|at) that|"
    r"this(?! (?:<project>)\b)|these|here|above|below|option|version|suggestion|suggestions|idea|"
    r"answer|draft|paragraph|sentence|(?:first|second|third|last|other|latest|previous|next) "
    r"(?:one|option|version|approach|idea|part|paragraph|solution|sentence|suggestion|way|of)|"
    r"approach|better(?! than)|so much|so far|each other|right|it(?! (?:was|has been|is) "
    r"(?:decided|agreed))",
    refusals=r"(?:don'?t|do not|please don'?t|never|not to|no need to) (?:\w+ )?(?:remember|save|"
    r"store|memori[sz]e|record|note) (?:this|that|it|any|what|my|anything|the (?:following|above))|"
    r"(?<!don't )(?<!dont )(?<!not )(?<!never )forget (?:that|this|about|what|it|everything|i|my)|"
    r"off the record|between (?:you and me|us)|keep (?:this|it) (?:off|out of)",
    tasks=r"(?:(?:please|can you|could you|pls|kindly|now|then|and|i want you to|i need you to|"
    r"would you|help me|help me to|let's|lets|ok|okay|hey|hi),? )*(?:translate|rewrite|rephrase|"
    r"paraphrase|proofread|correct|summari[sz]e|edit|polish|improve|shorten|act (?:as|like)|"
    r"pretend|imagine|role-?play|play (?:the role|a)|you are (?:an?|the|now|my)|your name is|"
    r"suppose|assume|act|fix (?:the |my )?(?:grammar|spelling|wording)|check (?:the |my "
    r")?(?:grammar|spelling)|(?:write|create|make|draft|compose|tell|generate)(?: me| us)? (?:an? |"
    r"the |some |my )?(?:[\w-]+ ){0,4}(?:story|poem|song|script|dialogue|dialog|scene|novel|"
    r"monologue|speech|character|essay|email|e-mail|letter|post|tweet|bio|review|haiku|rap|lyrics|"
    r"joke|message|sentences?|caption|blog|article|paragraph|reply|text|response|statement|"
    r"description)|here(?:'s| is| are) (?:the|my|a|an|some|our) (?:[\w-]+ ){0,3}(?:text|email|"
    r"essay|draft|letter|story|article|paragraph|message|transcript|script|poem|notes|bio|resume|"
    r"cv|conversation|chat|dialogue|excerpt|passage|prompt|code|log|output)|how (?:do|would|to) "
    r"(?:you |i )?(?:say|write|translate)|this is (?:the|my|a|an) (?:[\w-]+ ){0,3}(?:text|email|"
    r"essay|draft|letter|story|article|paragraph|transcript|conversation|prompt)|what does|given "
    r"the following|based on the following|read the following|the following)",
    first_person=r"i|i'?m|i'?ve|me|my|mine|myself",
    typical=r"the|i|my|we|is|are|and|of|to",
    fragments=FRAGMENTS,
)
