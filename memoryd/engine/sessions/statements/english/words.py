"""Words that the English rules share."""

from __future__ import annotations

FRAGMENTS = {
    "im": r"i(?:'?m| am)",
    "ive": r"i(?:'?ve| have)",
    "very": r"(?:(?:really|absolutely|strongly|generally|usually|always|also|much|definitely|do|"
    r"personally|still|actually|truly|honestly|totally|particularly|especially|only|mostly|"
    r"typically|tend to|both|currently|now|originally|proudly|happily|quite|very|severely|mildly|"
    r"deathly|highly|slightly|officially|strictly) )*",
    "month": r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?",
    "day": r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?",
    "date": r"(?:(?:the )?\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:<month>)\b|(?:<month>)\.? (?:the "
    r")?\d{1,2}\b|(?:<month>)\.? \d{4}\b|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?\b|"
    r"(?:the )?\d{1,2}(?:st|nd|rd|th)\b|(?:<month>)\b|end of (?:<month>|q[1-4]|the (?:month|year|"
    r"quarter))|q[1-4]\b)",
    "end": r"(?=\s*(?:$|[^\w\s]|(?:and|but|by the way|btw|so|from|who|or|because|as well|too|now|"
    r"then|not|although|though|with|since|in|based|working|living)\b))",
    # What a liking may be about: nothing at hand, nothing of this conversation.
    "object": r"(?!(?:it|its|it's|\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|not to (?:say|"
    r"answer|talk|discuss|comment|share)|that|this|these|those|you|your|yours|the|how|what|where|"
    r"when|who|why|if|him|her|his|them|their|everything|each|every|all of|all|both|option|waiting|"
    r"to (?:wait|think|see|say|know|hear|admit|be|bother|ask|interrupt|tell|imagine|believe|add|"
    r"point|have|help|get|do|learn more|start|make|try|explore|create|keep|share|find|focus|"
    r"discuss|talk|not)|to(?=\s*(?:\W|$))|seeing|hearing|knowing|being able|having|getting|doing|"
    r"making|sharing|us|one|none|more|some|something|anything|another|our|my (?:life|job))\b)\S",
    "place": r"(?!(?:the |a )?(?:city|downtown|area|city cent\w+|neighbou?rhood|region|same|"
    r"middle)\b(?! of <cap>))(?:(?:the )?(?:<cap>)|\d+ \w|(?!(?:a|an|the|fear|hope|peace|harmony|"
    r"constant|dreams?|denial|hell|chaos|interesting|sin|this|that|my|your|different|another|such|"
    r"one|it|and|for|with|here|there|poverty|pain|darkness|luxury|shame|reality|between|times|"
    r"today)\b)[a-z][\w'-]+|the (?:uk|us|usa|netherlands|philippines|midwest))",
    "dwelling": r"(?:a|an|the) (?:[\w-]+ ){0,3}(?:flat|house|village|town|city|apartment|farm|"
    r"cabin|suburbs?|countryside|island|area|region|district|boat|condo|mountains|coast)",
    "stage": r"(?:plan|room|step|chapter|phase|part|page|level|version|section)\b",
    "relation": r"(?:older |younger |eldest |youngest |oldest |big |little |ex-|late |twin |middle "
    r"|step-?|first |new )?(?:wife|husband|spouse|partner|fianc[eé]e?|girlfriend|boyfriend|son|"
    r"daughter|mother|father|mom|mum|dad|brother|sister|grandmother|grandfather|grandma|grandpa|"
    r"nephew|niece|aunt|uncle|cousin|baby|kid|child|mother-in-law|father-in-law|brother-in-law|"
    r"sister-in-law|best friend|roommate|flatmate|dog|cat|puppy|kitten|horse|parrot|rabbit|hamster|"
    r"pet|godson|goddaughter)",
    "only_one": r"(?:wife|husband|spouse|partner|fianc[eé]e?|girlfriend|boyfriend|mother|father|"
    r"mom|mum|dad|best friend|mother-in-law|father-in-law)",
    "person": r"(?:boss|manager|team lead|tech lead|lead|developer|cto|ceo|cfo|coo|designer|"
    r"accountant|lawyer|doctor|gp|dentist|therapist|landlord|landlady|teacher|supervisor|advisor|"
    r"adviser|professor|client|product owner|scrum master|project manager|contact|mentor|coach|"
    r"assistant|vet|agent|architect|line manager|admin|administrator|editor|publisher|neighbou?r)",
    "count": r"(?:an?|one|two|three|four|five|six|seven|eight|\d{1,2}|twin|several)",
    "family": r"(?:kids?|children|sons?|daughters?|boys|girls|siblings|brothers?|sisters?|"
    r"grandchildren|grandkids|dogs?|cats?|puppy|puppies|kittens?|rabbits?|horses?|parrots?|"
    r"chickens|twins|toddlers?|nephews?|nieces?|child|son|daughter)",
    "job": r"(?:engineer|developer|programmer|teacher|nurse|doctor|lawyer|attorney|paralegal|"
    r"designer|architect|accountant|consultant|manager|director|analyst|scientist|researcher|"
    r"professor|lecturer|student|writer|author|journalist|editor|translator|interpreter|"
    r"photographer|artist|illustrator|musician|singer|actor|actress|chef|cook|baker|barista|waiter|"
    r"waitress|carpenter|electrician|plumber|mechanic|welder|farmer|gardener|driver|pilot|sailor|"
    r"soldier|officer|firefighter|paramedic|midwife|dentist|vet|veterinarian|pharmacist|therapist|"
    r"psychologist|psychiatrist|physiotherapist|surgeon|biologist|chemist|physicist|mathematician|"
    r"statistician|economist|historian|librarian|archaeologist|geologist|astronomer|freelancer|"
    r"entrepreneur|founder|ceo|cto|cfo|investor|banker|broker|realtor|salesperson|sales rep|"
    r"marketer|recruiter|administrator|sysadmin|devops|technician|technologist|specialist|"
    r"coordinator|planner|strategist|tester|secretary|receptionist|tailor|hairdresser|barber|coach|"
    r"trainer|instructor|tutor|professional|retiree|pensioner|phd candidate|postdoc|intern|"
    r"apprentice|trainee|freshman|sophomore|undergraduate|copywriter|blogger|youtuber|filmmaker|"
    r"producer|animator|contractor|builder|surveyor|auditor|bookkeeper|cashier|clerk|curator|"
    r"dietitian|nutritionist|educator|principal|social worker|caregiver|sommelier)",
    "trait": r"(?:widow|widower|veteran|immigrant|citizen|mom|mum|dad|mother|father|parent|"
    r"homeowner|vegan|vegetarian|pescatarian|muslim|christian|catholic|buddhist|hindu|atheist|"
    r"celiac|coeliac|diabetic|night owl|early bird|morning person|night person|cat person|dog "
    r"person|introvert|extrovert|non-smoker|smoker|teetotall?er)",
    "illness": r"(?:asthma|diabetes|type (?:1|2|one|two) diabetes|adhd|add|dyslexia|c(?:o)?eliac "
    r"disease|celiac|epilepsy|arthritis|migraines|high blood pressure|low blood pressure|"
    r"hypertension|eczema|psoriasis|ibs|hay fever|tinnitus|autism|asperger's|ptsd|anemia|anaemia|"
    r"crohn's(?: disease)?|multiple sclerosis|insomnia|sleep apn(?:o)?ea|vertigo|claustrophobia|a "
    r"fear of \w+|(?:a|an) (?:[\w-]+ ){0,3}(?:allergy|intolerance|disability|pacemaker|heart "
    r"condition|phobia|hearing aid)|(?:[\w-]+ ){0,3}allergies)",
    "language": r"(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|"
    r"ukrainian|czech|slovak|hungarian|romanian|bulgarian|greek|turkish|arabic|hebrew|persian|"
    r"farsi|hindi|urdu|bengali|tamil|telugu|punjabi|gujarati|mandarin|cantonese|chinese|japanese|"
    r"korean|vietnamese|thai|indonesian|malay|tagalog|swahili|yoruba|igbo|zulu|amharic|swedish|"
    r"norwegian|danish|finnish|icelandic|estonian|latvian|lithuanian|irish|welsh|catalan|basque|"
    r"croatian|serbian|slovenian|albanian|afrikaans|british english|american english|british "
    r"spelling|american spelling)",
    "demonym": r"(?:american|british|english|scottish|welsh|irish|german|austrian|swiss|french|"
    r"spanish|italian|portuguese|dutch|belgian|polish|czech|slovak|hungarian|romanian|bulgarian|"
    r"greek|turkish|russian|ukrainian|swedish|norwegian|danish|finnish|canadian|australian|"
    r"brazilian|argentinian|mexican|colombian|chilean|peruvian|indian|pakistani|bangladeshi|"
    r"chinese|japanese|korean|vietnamese|thai|indonesian|filipino|nigerian|kenyan|ghanaian|"
    r"egyptian|moroccan|iranian|iraqi|israeli|lebanese|syrian|jewish|muslim|catholic|christian|"
    r"hindu|buddhist)",
    "act": r"(?:(?:use|adopt|go with|switch to|switch from|migrate|ship|store|deploy|release|"
    r"support|host|rename|replace|stick (?:with|to)|standardi[sz]e|require|postpone|launch|target|"
    r"split|stop (?:using|supporting)|publish|limit|not (?:use|support|ship|build|allow)|implement|"
    r"rewrite|port|hire|license|open[- ]source|deprecate|outsource|homeschool|get married)\b|"
    r"(?:move|keep|drop|write|build|run|base|make|remove|merge|call|name|put) "
    r"(?=[^?]{0,80}(?:(?-i:[A-Z][a-z])|\b(?:by default|only|all|every|instead of|"
    r"always)\b))(?!going|it )\w)",
    "standing": r"(?:use|answer|reply|respond|write|run|call|add|put|include|commit|push|merge|"
    r"deploy|delete|remove|ask|check|test|format|keep|give|show|explain|prefer|start|end|send|"
    r"store|log|name|round|quote|cite|speak|address|assume|avoid|mention|suggest|recommend|create|"
    r"make|touch|edit|change|tell|translate|convert|follow|sign|document|review|rebase|squash|pin|"
    r"install|import|return|validate|share|book|order|generate|provide|refer|encrypt|back up|"
    r"overwrite|hard-?code|expose|skip|propose|apologi[sz]e|summari[sz]e|output|print|type|wrap|"
    r"lint|bump|tag|publish|upload|email|schedule|interrupt|talk|bring up|link|attach|sort|do|be "
    r"(?:brief|concise|polite|formal|direct|honest))",
    "no_pep_talk": r"(?![^?]{0,120}\b(?:yourself|possible|important|matters|worth it|positive|"
    r"success|strong|proud|alone|okay|closer|journey|everyone is|life is|nobody is|article|word "
    r"count|persona|passages?|instructions|story|essay|prompt|character|contents?|chapter|scene|"
    r"audience|goal is|task)\b)",
    "project": r"(?:project|repo|repository|codebase|code base|team|company|app|application|"
    r"service|organi[sz]ation|org|monorepo|library|package|product|startup|lab|school|department|"
    r"household|family)",
    "part": r"(?:backend|back end|back-end|frontend|front end|front-end|server|database|api|app|"
    r"application|site|website|service|cluster|pipeline|ci|build|docs|documentation|library|cli|"
    r"client|bot|daemon|infrastructure|worker|queue|cache|game|plugin|codebase|project|production|"
    r"staging|prod|repo|repository|system|platform|product|data warehouse)",
    "tools": r"(?!(?:too|so|a lot|it|this|that|these|those|the|some|many|your|both|for|to|them|as|"
    r"in|on|only|every|all|more|less|much|a similar|the same|a different|each|our|my|no|one|up|him|"
    r"her|what|whatever|something|anything|words|here)\b)[^\W\d_]",
}

NOT_NAMES = (
    r"(?!(?:mud|not|on|in|a|an|the|at|also|listed|spelled|spelt|missing|wrong|misspelled|being|"
    r"going|now|written|there|here|too|very|so|by|to|for|nobody|no one|what|your|my|our|this|that|"
    r"it|displayed|shown|changed|all|still|always|just|only|really|taken|used|cut|hard|long|short|"
    r"unusual|common|rare|different|easy|difficult|empty|null|undefined|currently|correct|"
    r"incorrect|next|first|last|legion|later|maybe|back|when|if|crazy|old|anytime|tomorrow|today|"
    r"tonight|on|as|after|before|asap|again|and|or|stupid|paranoid|skeptical|whatever|names|out|up|"
    r"over|lazy|weird|picky|biased|using|from|with|ok|okay|sorry|sure|glad|happy|sad|tired|busy|"
    r"ready|done|fine|good|great|back|able|about|afk|lost|stuck)\b)"
)
