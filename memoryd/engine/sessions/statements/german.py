"""German: what lasts, and what only looks like it."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules, Table

_FRAGMENTS = {
    "very": r"(?:(?:sehr|wirklich|echt|total|absolut|immer|generell|grundsätzlich|eigentlich|auch|"
    r"meistens|leider|seit \w+ \w+|derzeit|aktuell|momentan|inzwischen|übrigens|einfach|stark|"
    r"schwer|hochgradig|selbst|persönlich|gar|überhaupt) )*",
    "month": r"januar|jänner|februar|märz|april|mai|juni|juli|august|september|oktober|november|"
    r"dezember",
    "day": r"(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)",
    "date": r"(?:(?:am |der |den |zum )*\d{1,2}\. ?(?:(?:<month>)\b|\d{1,2}\.(?:\d{2,4})?)|"
    r"\d{4}-\d\d-\d\d|(?:im |ende |anfang |mitte )(?:<month>)\b)",
    "end": r"(?=\s*(?:$|[^\w\s]|(?:und|aber|oder|von beruf|weil|denn|also|bitte|seit|in|aus|"
    r"bei)\b))",
    "object": r"(?!(?:das|die|den|der|dem|dies|diese|dieses|diesen|dieser|es|ihn|sie|dich|dein|"
    r"deine|deinen|deiner|deinem|wie|wenn|was|dass|es|alle|alles|beide|nicht|mehr|gern|gerne|ihr|"
    r"ihre|sein|seine|so|etwas)\b)\w",
    "relation": r"(?:ältere[rn]? |jüngere[rn]? |große[rn]? |kleine[rn]? |beste[rn]? )?(?:frau|mann|"
    r"ehefrau|ehemann|partner|partnerin|freundin|verlobte[r]?|sohn|tochter|mutter|vater|mama|papa|"
    r"bruder|schwester|oma|opa|großmutter|großvater|neffe|nichte|tante|onkel|hund|katze|kater|"
    r"pferd|kaninchen|baby|kind|mitbewohner|mitbewohnerin|freund)",
    "person": r"(?:chef|chefin|vorgesetzte[r]?|ärztin|arzt|hausarzt|hausärztin|zahnarzt|zahnärztin|"
    r"anwalt|anwältin|steuerberater|steuerberaterin|betreuer|betreuerin|teamleiter|teamleiterin|"
    r"ansprechpartner|ansprechpartnerin|vermieter|vermieterin|professor|professorin)",
    "job": r"(?:[\wäöü-]*(?:lehrer|ingenieur|entwickler|arzt|pfleger|techniker|berater|verkäufer|"
    r"händler|leiter|designer|architekt|anwalt|jurist|student|schreiner|tischler|bäcker|koch|"
    r"elektriker|mechaniker|schlosser|maler|gärtner|bauer|landwirt|wissenschaftler|physiker|"
    r"chemiker|biologe|informatiker|programmierer|journalist|autor|übersetzer|musiker|fotograf|"
    r"künstler|polizist|erzieher|therapeut|psychologe|apotheker|buchhalter|kaufmann|manager|"
    r"analyst|doktorand|rentner|pilot|fahrer|sekretär|meister|arbeiter)(?:in)?|[\wäöü-]*(?:ärztin|"
    r"köchin|biologin|psychologin|kauffrau|anwältin|bäuerin|hebamme|krankenschwester)|rentner|"
    r"azubi)",
    "tool": r"(?!(?:das|dies|diese|diesen|dieses|es|zu|sehr|viel|viele|die|den|der|eine|einen|ein|"
    r"dafür|dazu|nur|hier|ihn|sie|alle|noch|nichts|nicht)\b)[\w`Q]",
    "act": r"(?:dass \w|(?=[^?]{0,120}\b(?:verwenden|benutzen|nutzen|umzusteigen|einzusetzen|"
    r"umzustellen|(?:zu )?(?:wechseln|migrieren|ersetzen|verschieben|unterstützen|veröffentlichen|"
    r"hosten|deployen|behalten|speichern)|einzuführen|abzuschaffen|umzubenennen|heiraten)\b))",
    "trait": r"(?:(?:vegetarier|veganer|diabetiker|allergiker|linkshänder|frühaufsteher|"
    r"nachtmensch|nichtraucher|raucher|muslim|christ|atheist|single)(?:in)?|muslima)",
    "language": r"(?:deutsch|englisch|französisch|spanisch|italienisch|portugiesisch|polnisch|"
    r"türkisch|russisch|niederländisch|ukrainisch|arabisch|schwedisch|dänisch|tschechisch|"
    r"ungarisch|griechisch|kroatisch|serbisch|chinesisch|japanisch|rumänisch)",
}

_NOT_NAMES = (
    r"(?!(?:nicht|ja|auch|jetzt|nun|das|es|so|wie|was|hier|da|dich|sie|ihn|willkommen|später|bitte|"
    r"morgen|heute|an|mal|doch|sicher|falsch|egal|leider|hase)\b)"
)

_RULES = (
    Rules(
        (
            rf"mein (?:voller |vor|nach|ganzer |spitz)?name ist {_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"ich hei(?:ß|ss)e (?:übrigens |mit \w+ )?{_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"(?:bitte )?nenn(?:t|e|en sie)? mich (?:bitte |einfach |lieber |nur "
            rf")*{_NOT_NAMES}<name>",
            r"ich bin (?:der |die )(?-i:[A-ZÄÖÜ])[a-zäöüß]+ (?:und|aus|von)\b",
        ),
        topic="user.name",
        confidence=0.95,
    ),
    Rules(
        (
            r"mein geburtstag ist <date>",
            r"ich habe <date> geburtstag",
            r"ich bin (?:<date> |\d{4} )(?:in \w+ )?geboren",
            r"ich wurde (?:<date>|\d{4})[\w ]{0,30}geboren",
        ),
        topic="user.birthday",
        confidence=0.95,
    ),
    Rules((r"ich bin \d{1,3} jahre alt",), topic="user.age", confidence=0.85),
    Rules(
        (
            r"meine (?:neue |private )?(?:adresse|anschrift) (?:ist|lautet) (?=[^?]{0,60}\d)\w",
            r"(?:ich|wir) (?:wohne|wohnen|lebe|leben) <very>(?:in|im|am|an|auf|bei|nahe|nähe) "
            r"(?!angst|sünde|frieden|einem traum|der hoffnung|meiner eigenen)\w",
            r"ich bin (?:letztes jahr |vor kurzem |gerade |kürzlich )?nach <cap> (?:um)?gezogen",
        ),
        topic="user.address",
        confidence=0.85,
    ),
    Rules((r"ich komme (?:ursprünglich )?aus <cap>",), topic="user.origin", confidence=0.8),
    Rules(
        (r"meine (?:neue |private |dienstliche )?e?-?mail(?:-?adresse)? (?:ist|lautet) <email>",),
        topic="user.email",
        confidence=0.95,
    ),
    Rules(
        (
            r"meine (?:neue |private )?(?:telefon|handy|mobil)?nummer (?:ist|lautet) <number>",
            r"(?:du erreichst mich|ihr erreicht mich|ich bin) (?:unter|erreichbar unter) <number>",
        ),
        topic="user.phone",
        confidence=0.95,
    ),
    Rules(
        (
            r"ich (?:arbeite|bin angestellt) <very>(?:(?:bei|beim) (?:der |dem |einem |einer "
            r")?(?!nacht|regen|hitze|licht|bedarf|tag)(?:[\w-]+ ){0,2}?<cap>|für (?!(?:die |eine |"
            r"den |das |meine? )?(?:prüfung|klausur|schule|uni|zukunft|projekt|kurs))(?:die |eine |"
            r"einen |das |ein )?(?:[\w-]+ ){0,2}?(?:<cap>)|(?:im|in einem|in einer|an der|am) "
            r"(?:[\w-]+ ){0,2}?(?:krankenhaus|homeoffice|vertrieb|marketing|einkauf|kundendienst|"
            r"rathaus|kindergarten|gymnasium|grundschule|universität|uni|finanzamt|labor|bank|"
            r"kanzlei|agentur|theater|museum|klinik))",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"ich (?:arbeite|jobbe) <very>als \w",
            r"ich bin <very>(?:eine? |gelernte[r]? |freiberufliche[r]? |selbstständige[r]? |"
            r"angehende[r]? )*<job><end>",
            r"ich bin <very>[\w-]+ von beruf",
            r"(?:mein beruf ist|von beruf bin ich) \w",
            r"ich studiere (?!noch|das|den|die|gerade)\w+",
        ),
        topic="user.job",
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:meine?|unsere?) <relation> hei(?:ß|ss)t <word>",
            r"der name (?:meine[rs]|unsere[rs]) <relation>e?s? ist <word>",
            r"(?:ich habe|wir haben) (?:eine |einen |ein |zwei |drei |vier |fünf |\d+ )(?:kleine |"
            r"erwachsene )?(?:kinder|kind|söhne|töchter|sohn|tochter|geschwister|brüder|schwestern|"
            r"bruder|schwester|hunde|hund|katzen|katze|enkel)(?:<end>| namens )",
            r"ich bin (?:glücklich |frisch )?(?:verheiratet|geschieden|verwitwet|ledig|"
            r"verlobt)<end>",
            r"(?:meine?|unsere?) <relation> (?:ist \d+<end>|ist (?:allergisch|vegan|vegetarisch|"
            r"<job><end>)|hat am <date> geburtstag|sitzt im rollstuhl|hat (?:eine |einen "
            r")?[\w-]*(?:allergie|unverträglichkeit|diabetes|zöliakie))",
        ),
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:meine?|unsere?) (?P<thing><person>) (?:ist|hei(?:ß|ss)t) (?:frau |herr |dr\. "
            r")?(?-i:[A-ZÄÖÜ])[\w-]+<end>",
        ),
        topic="role:{thing}",
        about_user=None,
    ),
    Rules(
        (
            r"ich bin <very>(?:eine? )?<trait><end>",
            r"ich bin <very>(?:gegen|auf) (?!dich|deine|montage|dumm)[\w -]{2,40} allergisch",
            r"ich vertrage <very>kein(?:e|en)? \w",
            r"ich bin <very>allergisch (?:gegen|auf) (?!dich|deine|montage|dumm)\w",
            r"ich (?:bin|lebe|esse|ernähre mich) <very>(?:vegan|vegetarisch|glutenfrei|halal|"
            r"koscher|laktose-?intolerant|farbenblind|schwerhörig|taub|blind|linkshändig)<end>",
            r"ich (?:habe|leide an|leide unter) <very>(?:eine |einen )?(?:[\w-]*(?:allergie|"
            r"unverträglichkeit|intoleranz|phobie)|diabetes|asthma|adhs|zöliakie|epilepsie|migräne|"
            r"heuschnupfen|bluthochdruck|rheuma|legasthenie|tinnitus|höhenangst)\b",
        ),
        confidence=0.9,
    ),
    Rules(
        (
            r"ich spreche (?:flie(?:ß|ss)end |ein bisschen |etwas )?<language>",
            r"meine muttersprache ist \w",
        ),
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:ich )?(?:bevorzuge|präferiere) (?:ich )?<very>(?P<rest><object>)",
            r"ich (?:mag|liebe|hasse|verabscheue) <very>(?P<rest>(?:kein|keine|keinen )?<object>)",
            r"(?:mag|liebe|hasse) ich <very>(?P<rest><object>)",
            r"ich (?:trinke|esse|nehme|fahre|reise|lese|höre|arbeite|benutze|verwende|schreibe|"
            r"nutze) (?!das|es|diese|dein)[\w ]{0,30}(?:am liebsten|lieber|nie|niemals|immer|"
            r"grundsätzlich|kein|keine|keinen)\b",
            r"am liebsten (?:trinke|esse|nehme|fahre|reise|lese|höre|arbeite|benutze|verwende|mag) "
            r"ich (?!das|es|diese|dein)\w",
            r"ich kann <object>[\w ]{1,40} nicht (?:leiden|ausstehen|ab)\b",
        ),
        topic="preference:{thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (
            r"mein(?:e)? (?:absolute[rs]? )?lieblings-?(?P<thing>(?!teil|stelle|satz|moment)\w+) "
            r"(?:ist|sind) \w",
        ),
        topic="preference:favourite {thing}",
        kind="preference",
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:bitte )?(?:antworte|schreib|schreibe|sprich|rede)(?: mir| mit mir| bitte)* (?:ab "
            r"(?:jetzt|sofort|nun)|in zukunft|künftig|immer|von nun an|nur noch)(?: immer| nur| "
            r"bitte)* (?:auf )?<language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:ab (?:jetzt|sofort|nun|heute)|von (?:jetzt|nun) an|in zukunft|zukünftig|künftig) "
            r"(?:bitte )?(?!sehen wir|mal sehen|wird|werde)\w+ \w",
            r"(?:bitte )?(?:verwende|benutze|nutze|nimm|antworte|schreib|schreibe|gib|zeige?|füge|"
            r"nenn|nenne|mach|mache|lösche|committe|pushe|duze?|siez|frag|frage)[\w "
            r"]{0,40}\b(?:immer|nie|niemals|nie wieder|ab jetzt|ab sofort|in zukunft|künftig|"
            r"grundsätzlich)\b",
            r"(?:bitte )?(?:sieze?|duze?) mich\b",
            r"(?:bitte )?(?:immer|nie|niemals) [\w ,`Q-]{3,80}(?:en|ern|eln)[.!]*$",
        ),
        kind="requirement",
        about_user=None,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:wir|das team|unser team|ich) (?:haben|hat|habe) (?:uns |sich |mich )?(?:gemeinsam "
            r"|heute |jetzt |endlich |nun )?(?:beschlossen|entschieden|vereinbart|festgelegt),? "
            r"<act>",
            r"(?:wir|das team|unser team) (?:haben|hat) (?:uns|sich) (?:jetzt |nun |endlich |doch "
            r")*(?:für|gegen|auf) (?!eine pause|das|die (?:erste|zweite)|den (?:ersten|"
            r"zweiten))[\w .`-]{2,60} (?:entschieden|geeinigt)",
            r"(?:wir|das team) (?:haben|hat) (?:vereinbart|beschlossen),? <act>",
            r"die entscheidung ist(?: gefallen)?(?::|,)? (?:dass|wir|für) \w",
            r"es wurde (?:beschlossen|entschieden|vereinbart),? <act>",
        ),
        kind="decision",
        about_user=False,
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:die |der |unsere? |meine? )?(?P<thing>[\w-]*(?:frist|abgabetermin|deadline|abgabe|"
            r"stichtag|einsendeschluss|abgabedatum|termin)(?: (?:für|der|des|zur|zum) [\w "
            r"-]{2,50}?)?) (?:ist|endet|läuft|fällt)(?: bis| auf| am| der| den| zum)* (?:<date>|"
            r"<day>)",
            r"(?:ich muss|wir müssen) (?:die |den |das |meine?n? |unsere?n? )?(?P<thing>[\w "
            r"-]{2,50}?) (?:bis|am)(?: zum| spätestens)* <date> (?:abgeben|einreichen|fertig|"
            r"liefern|abliefern)",
            r"(?:die |der |das |unsere? |meine? )(?P<thing>[\w -]{2,50}?) (?:muss|müssen|ist|sind) "
            r"(?:bis|am)(?: zum| spätestens)* (?:<date>)[\w .]{0,20}(?:fertig|abgegeben|"
            r"eingereicht|fällig|abgeschlossen|geliefert)",
        ),
        topic="deadline:{thing}",
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:in|bei|für) (?:diesem|unserem|dem|unser|diese[ms]?) (?:projekt|repo|repository|"
            r"team|firma|code)[\w ]{0,20} (?:benutzen|verwenden|nutzen|nehmen|schreiben|setzen) "
            r"wir \w",
            r"(?:wir|unser team|dieses projekt|das projekt) (?:benutzen|verwenden|nutzen|nutzt|"
            r"benutzt|verwendet|deployen|setzen auf) <very><tool>",
            r"unsere? (?:\w+ )?(?:konvention|codestil|standup|daily|sprint|stack|namenskonvention|"
            r"hauptbranch|backend|frontend|server|datenbank) (?:ist|sind|läuft|beginnt|heißt) "
            r"(?!kaputt|down|langsam|weg|schlecht|gut|nicht|gerade|offline|überlastet)\w",
            r"alle [\w -]{2,40} (?:müssen|sollen) [\w ]{2,60}",
        ),
        about_user=False,
        general=True,
    ),
)

TABLE = Table(
    code="de",
    rules=_RULES,
    explicit=(
        r"(?:bitte )?(?:merk|merke|notier|notiere) (?:dir|es dir)(?: bitte| mal| das| folgendes| "
        r"für später| für die zukunft)*(?:[:,] ?(?:dass )?|\s(?=dass)(?:dass ))(?!nicht)",
        r"(?:bitte )?(?:denk|denke) (?:bitte |immer )?(?:daran|dran),? dass ",
        r"(?:bitte )?(?:vergiss|vergesst) (?:bitte )?nicht,? dass ",
        r"(?:bitte )?(?:behalte|behalt)(?: bitte)? im (?:kopf|hinterkopf|gedächtnis),? dass ",
        r"für die zukunft: ?",
    ),
    openers=r"ok|okay|oh|ach|und|aber|also|übrigens|hallo|hi|hey|guten (?:morgen|tag|abend)|danke|"
    r"ja|nein|nur zur info|zur info|zur information|fürs nächste mal|nebenbei|noch was|noch etwas|"
    r"ps|wichtig|hinweis|bitte beachte,? dass|du solltest wissen,? dass|wie du weißt|ehrlich "
    r"gesagt|grundsätzlich|generell|außerdem|weil|da|denn|super|prima|gut",
    conjunctions="und|aber|denn|weil|sowie|also",
    starters=r"ich|wir|mein|meine|unser|unsere|du|bitte|kannst|es|das|dann|jetzt|nun|er|sie",
    questions=r"wie|was|wer|wo|wann|warum|welche[rsn]?|kannst|könntest|könnt|soll|sollen|sollte|"
    r"darf|ist|sind|bin|hast|habe|haben|magst|würdest|gibt|wieso|weshalb|oder",
    doubts=r"wenn|falls|ob|vielleicht|möglicherweise|eventuell|wahrscheinlich|vermutlich|würde|"
    r"hätte|könnte|wäre|hieße|glaube|denke|meine ich|schätze|früher|damals|mal gucken|sagt|sagte|"
    r"gesagt|meint|meinte|behauptet|angeblich|anscheinend|noch nicht|nicht sicher|unsicher|keine "
    r"ahnung|weiß nicht|hoffentlich|ja so|quatsch|scherz|spaß|manchmal|irgendwie|noch nichts|nicht "
    r"mehr so",
    conditions=r"wenn|falls|angenommen|stell dir vor|nehmen wir an|tu so|na toll|super,? ich|als "
    r"ob|vielleicht|sagt|sagte|gesagt|meint|im film|im buch|in der geschichte|satz",
    passing=r"gerade|heute|morgen früh|jetzt gerade|im moment|im augenblick|gestern|diese woche|"
    r"bis gleich|gleich|vorhin|heute abend|kurz|momentan|zurzeit|daran|dran",
    deictic=r"dein|deine|deinen|deiner|deinem|dich|dir|diese|dieser|dieses(?! projekt)|diesen|hier|"
    r"vorschlag|idee|version|fassung|antwort|variante|absatz|option|pause|essen zu gehen|zu warten|"
    r"abzuwarten|(?:erste|zweite|dritte|letzte)[nrs]?",
    refusals=r"(?:merk|merke|speicher|speichere|notier|notiere)(?: \w+){0,4} (?:nicht|nichts)|"
    r"nicht (?:merken|speichern)|unter uns|(?<!nicht )vergiss (?:das|dass|es|bitte das|was)(?! "
    r"nicht)",
    tasks=r"(?:(?:bitte|kannst du|könntest du|jetzt|hilf mir,?) )*(?:übersetz|übersetze|übersetzen|"
    r"korrigier|korrigiere|schreib um|formuliere|fasse?|zusammenfass\w*|tu so|stell dir vor|du "
    r"bist (?:ein|eine|jetzt)|spiel|schreib(?:e)?(?: mir| uns)? (?:eine?n? )?(?:[\w-]+ "
    r"){0,3}(?:geschichte|gedicht|mail|e-mail|brief|text|lied|dialog|rede|bewerbung|nachricht|satz|"
    r"sätze|aufsatz)|verbessere?|hier ist (?:der|die|das|mein|meine|ein|eine) (?:text|mail|brief|"
    r"entwurf|geschichte|artikel)|wie sagt man|wie schreibt man)",
    first_person=r"ich|mich|mir|mein|meine|meinen|meiner|meinem|meines",
    typical=r"ich|der|die|das|und|ist|wir|nicht|mein|meine",
    fragments=_FRAGMENTS,
)
