"""English: decisions, dates, tools and conventions of a project."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules

PROJECT = (
    Rules(
        (
            r"(?:we|our team|the team|my team|the board|the committee|management|i)(?:'ve| have| "
            r"has)? (?:finally |just |already |all |also |now )?(?:decided|agreed|opted|voted|"
            r"resolved) (?:to <act>|that \w|against using \w|on (?:using )?<tools>)",
            r"(?:we|our team|the team|my team|i)(?:'ve| have| has)? (?:finally |just |already |all "
            r")?(?:decided|settled|opted|agreed) (?:on|for) (?!an? |the |lunch|dinner|it|this|"
            r"that)\S",
            r"(?:we|our team|the team|my team)(?:'ve| have| has)? (?:finally |just |already "
            r")?(?:chose|chosen|picked|selected) (?!it|this|that|the|up|out|you|your|to)(?:<cap>|Q|"
            r"[^?]{2,60} (?:for|as|instead of|over) )",
            r"(?:the|our) (?:final )?(?:decision|agreement|consensus) (?:is|was) (?:to|that) \w",
            r"(?:we|our team|the team)(?:'ve| have| has)? (?:just |recently |finally )?(?:moved|"
            r"switched|migrated) (?:everything )?(?:over )?(?:from [\w .]{2,30} )?(?:over )?to "
            r"(?!<day>|<month>|<stage>)<cap>",
            r"it (?:was|has been|is) (?:decided|agreed) (?:that|to) \w",
            r"decision: \S",
            r"we(?:'re| are) (?:going with|sticking with|standardi[sz]ing on|switching to|moving "
            r"to|migrating to) (?!it|this|that|the |option|a |your|plan|my )\S",
            r"we(?:'re| are| will|'ll) (?:going to |gonna )?(?:use|deploy|ship|host|write) "
            r"[^?]{2,80}(?:from now on|going forward|for all)\b",
        ),
        topic=None,
        kind="decision",
        about_user=False,
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:the|our|my) (?P<thing>(?:[\w'-]+ ){0,4}(?:deadline|due date|release date|launch "
            r"date|cut-?off(?: date)?|submission date|closing date|go-live date|move-in date|"
            r"wedding date|exam date)(?: (?:for|of) [\w' -]{2,60}?)?)(?:'s| is| falls| has been| "
            r"was)(?: set| moved| changed| extended| pushed(?: back)?)?(?: to| on| for| by|:)? "
            r"(?:now )?(?:<date>|(?:next )?<day>|\w+ <date>|(?:next )?<day>,? <date>)",
            r"(?:deadline|due date)(?: for [\w' -]{2,60}?)?(?: is|:) ?(?:on )?(?:<date>|<day>)",
            r"(?:the|our|my|this) (?P<thing>[\w' -]{2,50}?) (?:is|are) due (?:on |by |in "
            r")?(?:<day>,? )?<date>",
            r"(?:the |our |my |this )?(?P<thing>[\w' -]{2,50}?) (?:has|have|needs|need|must)(?: "
            r"to)? be (?:submitted|finished|delivered|ready|done|filed|handed in|complete|"
            r"completed|live|shipped|released|paid|sent|turned in)[\w ]{0,20} (?:by|on|before|"
            r"until) (?:<day>,? )?(?:the )?(?:end of )?<date>",
            r"(?:we|i) (?:have|need) to (?:submit|deliver|finish|file|hand in|ship|release|launch) "
            r"(?P<thing>[\w' -]{2,50}?) (?:by|on|before) <date>",
            r"we(?:'re| are| will)? (?:launch|ship|release|go live|launching|shipping|releasing|"
            r"going live) (?P<thing>)[\w ]{0,20}on <date>",
            r"(?:my|our|the) (?P<thing>(?:[\w-]+ ){0,2}(?:flight|wedding|exam|appointment|surgery|"
            r"interview|anniversary|trip|conference|graduation|move|defen[cs]e|marathon|"
            r"launch))(?:'s| is| takes place| happens)(?: scheduled| planned| set)?(?: on| for)? "
            r"<date>",
        ),
        topic="deadline:{thing}",
        kind=None,
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:in|for|on|at) (?:this|our|the|my) (?:\w+ )?<project>,? (?:we|i) (?:<very>)(?:use|"
            r"write|follow|keep|store|deploy|name|put|run|prefer|require|never|don't use|do not "
            r"use) \S",
            r"(?:we|our <project>|this <project>|the <project>|my <project>|my team) "
            r"(?:<very>)(?:uses?|follows?|deploys? (?:to|with|via|on)|runs? on|targets?|is built "
            r"(?:with|on|in)|is written in|standardi[sz]es on|practi[sc]es?) <tools>",
            r"(?:our|this) <project> uses \d+[- ](?:space|column|character)",
            r"we (?:always|never|only) (?:squash|merge|rebase|review|deploy|use|write|commit|tag|"
            r"release|test|format|run|meet|ship|pin|branch|document|lint|buy|eat|fly)\b(?! (?:that|"
            r"this|it|the|them|into|out|to))",
            r"(?:our|the) <part> (?:only (?:accepts|supports|allows|works with|runs on)|requires) "
            r"\w",
            r"(?:our|the|my) (?:\w+ ){0,2}(?:url|endpoint|server|repo|repository|wiki|port|domain|"
            r"website|blog|ip|ip address|homepage|portfolio)(?: address)?(?: is| lives)(?: "
            r"located)?(?: at| on| in)? (?=https?://|port \d|\d{1,3}\.\d|\d{4,5}\b(?!%)|"
            r"[\w-]+\.[a-z]{2,})\S",
            r"(?:our|the) (?:\w+ ){0,2}budget (?:for [\w ]{2,40} )?is [^\d?]{0,20}\d",
            r"(?:the|our|my|we have|there is|there's) [\w' -]{2,50}? (?:is |are |meets? |happens? "
            r")?(?:every|each) (?:<day>|day at|week|weekday|other|second|month|morning)\b",
            r"we (?:don'?t|do not|never) (?:use|deploy|merge|commit|push|ship|release|support|"
            r"allow) <tools>",
            r"we (?:<very>)(?:deploy|release|ship|meet|merge|publish) (?:every|on|to|via|with|from|"
            r"once|twice) \w",
            r"(?:our|the team's|the) (?:\w+ ){0,2}(?:convention|code style|coding style|style "
            r"guide|tech stack|stack|policy|naming convention|naming scheme|commit style|branching "
            r"model|line length|package manager|test framework|build tool|formatter|linter)s? "
            r"(?:is|are|requires|says)(?: that| to)? (?!down|broken|a mess|bad|ugly|slow|terrible|"
            r"not|wrong|missing|too|so|very|unclear|great|good|nice|fine)\S",
            r"(?:our|the|my) (?:\w+ ){0,2}(?:stand-?up|sprint|retro|retrospective|team meeting|"
            r"fiscal year|release cycle|on-call rotation|weekly|office hours|one-on-one)s? (?:is|"
            r"are|starts?|begins?|lasts?|takes place|happens?) (?=[^?]{0,60}(?:\b(?:every|daily|"
            r"weekly|each|<month>|<day>|days|weeks)\b|\d))",
            r"(?:our|the|my) (?:\w+ ){0,2}<part> (?:is|are) (?:written|built|hosted|deployed|based|"
            r"implemented|developed|running) (?:in|on|with|at|to|via|by) <tools>",
            r"(?:our|the|my) (?:\w+ ){0,2}<part> (?:runs|uses|lives|listens|speaks) (?:on |in |at |"
            r"under )?(?!out\b)(?:(?:port )\d+|<cap>|Q)",
            r"(?:our|the) (?:main|default|release|development|production) branch is (?:called |"
            r"named )?(?!broken|red|green|down|failing|not|ahead|behind|protected now)[\w`Q]",
            r"(?:all )?(?:unit |integration )?tests (?:go|live|are|belong) (?:in|into|under) \S",
            r"all (?:of )?our [\w ]{2,30} (?:are|is) (?:in|on|at|written|stored|hosted)\b",
            r"all (?!day|night|week|of it|that)(?:[\w-]+ ){1,4}(?:must|have to|need to|should|"
            r"shall|are to) (?:be|have|use|go|follow|pass|include|contain|end|start|come)\b",
            r"every (?:[\w-]+ ){1,3}(?:must|has to|needs to) (?:be|have|use|go|follow|pass|"
            r"include)\b",
            r"our (?:clients|customers|users|office|company|team|headquarters|fiscal year|store|"
            r"shop) (?:is|are) (?:based|located|closed on|open|headquartered|called|mostly|(?:at|"
            r"in) (?:<cap>|\d))",
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
