"""English: what a person likes, and how they want to be answered from now on."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules

PREFERENCES = (
    Rules(
        (
            r"i (?:<very>)prefer (?P<first>(?!not |the (?:first|second|third|last|other|new|old) "
            r")[\w'-]+(?: [\w'-]+){0,3}) (?:over|rather than|instead of) (?P<second>[\w'-]+(?: "
            r"[\w'-]+){0,3})<end>",
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
            r"i (?:<very>)(?:like|love|enjoy|adore|dislike|hate|loathe|detest|despise|can'?t stand|"
            r"cannot stand|can not stand|don'?t (?:really |particularly )?(?:like|enjoy)|do not "
            r"(?:like|enjoy)) (?P<rest><object>)",
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
            r"my (?:all-time |absolute |personal )?favou?rite (?P<thing>(?!part|thing about|line|"
            r"bit|moment|scene|one|example|version|answer|option|of)[\w-]+(?: [\w-]+){0,3}?)(?:'s| "
            r"is| are) (?!that|this|how|when|the (?:first|second|third|last|one)|by far)\w",
            r"(?P<thing>)<name> is my (?:all-time |absolute )?favou?rite [\w-]+",
        ),
        topic="preference:favourite {thing}",
        kind="preference",
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"i (?:always|never|only|usually|mostly|typically) (?:eat|drink|smoke|use|fly|travel|"
            r"wear|buy|watch|cook|sleep|order|pay|commute|shop|take (?:my|the (?:train|bus|"
            r"stairs)))\b(?! (?:the (?:wrong|same)|time)\b)",
            r"i (?:don'?t|do not|can'?t|cannot|can not) (?:eat|drink|smoke|consume|celebrate|drive|"
            r"tolerate|speak) (?!anything|another|much|all|any more|now|that|this|it|more|enough|"
            r"to|up|out|for|at|about|and)\w",
            r"i (?:take|drink|have) my (?:coffee|tea|steak|eggs) \w",
            r"i avoid (?!it|this|that|the)\w",
            r"i (?:only |mostly |usually |always )?work (?:from home|remotely|nights|night shifts|"
            r"part[- ]time|full[- ]time|shifts|freelance)\b",
            r"i (?:usually|always|normally|mostly) (?:get up|wake up|go to bed|go to sleep|start "
            r"work) (?:at|around|before|after) \d",
            r"i (?:keep|eat) (?:kosher|halal)\b",
            r"i follow an? (?:[\w-]+ ){0,3}diet\b",
        ),
        topic=None,
        kind="preference",
        general=True,
    ),
)

STANDING = (
    Rules(
        (
            r"(?:please )?(?:always )?(?:answer|reply|respond|speak|write|talk|use)(?: to me| "
            r"me)?(?: only| always)?(?: in)? <language>(?: spelling)? (?=[^?]{0,30}(?:from now on|"
            r"always|in future))",
            r"(?:please )?always (?:answer|reply|respond|speak|write|talk)(?: to me| me)? in "
            r"<language>\b",
            r"(?:from now on|going forward|in future|in the future|henceforth|from here on),? "
            r"(?:please )?(?:always )?(?:only )?(?:answer|reply|respond|speak|write|talk|use)(?: "
            r"to me| me)?(?: only)?(?: in)? (?:plain |simple )?<language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:please )?(?:always|never|don'?t ever|do not ever) <standing> (?!mind|again|up\b|"
            r"us\b|me (?:smile|laugh|happy|feel))(?![^?,]{0,80}\b(?:them|it|(?:this|"
            r"that)[.!]*$))\S",
            r"(?:from now on|going forward|from here on|henceforth|from today on),? (?:please "
            r")?(?!you are|you're|you will be|act |pretend|your name|we'll see|we will see|things|"
            r"i'?ll|i will|i'?m |i am )\S",
            r"in (?:the )?future,? (?:please )(?:don'?t |do not |only |always |never "
            r")?<standing>\b",
            r"in (?:the )?future,? (?:don'?t|do not|always|never|only) <standing>\b",
            r"(?:please )?(?:don'?t|do not) <standing> [^?]{2,80}\bever(?: again)?[.!]*$",
            r"(?:for|in) (?:this|our) <project>,? (?:the rule is|all|every|always|never|no) ?:? "
            r"?\w",
            r"(?:the|our) rule (?:here |in (?:this|our) <project> )?is(?: that|:| to) \w",
            r"(?:please )?(?:don'?t |do not |only |stop )?(?:<standing>|using|adding|calling) "
            r"[^?]{2,80} (?:from now on|going forward|in future)\b",
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
