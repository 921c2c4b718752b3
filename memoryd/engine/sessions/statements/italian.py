"""Italian: what lasts, and what only looks like it."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules, Table

_FRAGMENTS = {
    "very": r"(?:(?:molto|davvero|anche|sempre|soprattutto|attualmente|ora|adesso|generalmente|"
    r"piuttosto|proprio|tanto|gravemente|da \w+ \w+) )*",
    "month": r"gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre|ottobre|"
    r"novembre|dicembre",
    "date": r"(?:(?:il |l'|al |entro il )?\d{1,2}(?:°)? (?:<month>)\b|(?:il )?\d{1,2}/\d{1,2}|"
    r"\d{4}-\d\d-\d\d|(?:fine |a |in )(?:<month>)\b)",
    "day": r"(?:lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica)",
    "end": r"(?=\s*(?:$|[^\w\s]|(?:e|ed|ma|perché|o|da|in|a|di|con|quindi|per)\b))",
    "object": r"(?!(?:questo|questa|questi|queste|quello|quella|quelli|quelle|ciò|la tua|il tuo|le "
    r"tue|i tuoi|tuo|tua|la (?:prima|seconda|terza|seconda|ultima|versione)|il (?:primo|secondo|"
    r"terzo)|l'(?:ultim[oa]|altr[oa]|idea)|come|quando|che|tutto|non (?:dire|rispondere)|così|di "
    r"più)\b)\w",
    "relation": r"(?:moglie|marito|compagn[oa]|partner|fidanzat[oa]|ragazz[oa]|figli[oa]|madre|"
    r"padre|mamma|papà|fratello|sorella|nonn[oa]|nipote|zi[oa]|cane|gatt[oa]|cavallo|coniglio|"
    r"coinquilin[oa]|suocer[oa]|cugin[oa])",
    "my": r"(?:(?:il |la )?(?:mio|mia|nostro|nostra))",
    "job": r"(?:professor(?:e|essa)|insegnante|maestr[oa]|ingegnere|sviluppat(?:ore|rice)|"
    r"programmat(?:ore|rice)|medico|dottor(?:e|essa)|infermier[ea]|avvocat[oa]|architett[oa]|"
    r"commercialista|consulente|dirett(?:ore|rice)|student(?:e|essa)|scritt(?:ore|rice)|"
    r"giornalista|tradutt(?:ore|rice)|fotograf[oa]|artista|musicista|cuoc[oa]|chef|panettier[ea]|"
    r"elettricista|idraulico|meccanico|agricolt(?:ore|rice)|pilota|dentista|veterinari[oa]|"
    r"farmacista|psicolog[oa]|chirurg[oa]|biolog[oa]|chimic[oa]|ricercat(?:ore|rice)|"
    r"imprendit(?:ore|rice)|pensionat[oa]|grafic[oa]|designer|tecnic[oa]|segretari[oa]|"
    r"parrucchier[ea]|impiegat[oa]|dottorand[oa])",
    "trait": r"(?:vegan[oa]|vegetarian[oa]|diabetic[oa]|celiac[oa]|daltonic[oa]|mancin[oa]|"
    r"asmatic[oa]|sposat[oa]|divorziat[oa]|single|vedov[oa])",
    "made": r"risultato|stile|tono|titolo|testo|design|colore|nuov[oa]|finale|inizio|codice|"
    r"approccio|esempio|nome|idea|proposta|modo|maniera|risposta|piano|logo|struttura|soluzione|"
    r"tu[oa]",
    "language": r"(?:italiano|inglese|francese|tedesco|spagnolo|portoghese|arabo|russo|cinese|"
    r"giapponese|rumeno|polacco)",
}

_NOT_NAMES = r"(?!(?:non|fuori|come|così|sempre|la|il|nessuno)\b)"

_RULES = (
    Rules(
        (
            rf"(?:io )?mi chiamo {_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"il mio (?:nome|cognome)(?: completo)? è {_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"(?:puoi chiamarmi|chiamami|chiamatemi) {_NOT_NAMES}<name>",
        ),
        topic="user.name",
        confidence=0.95,
    ),
    Rules(
        (
            r"il mio compleanno è (?:a )?<date>",
            r"compio gli anni <date>",
            r"sono nat[oa] (?:<date>|nel \d{4}|a <cap>)",
        ),
        topic="user.birthday",
        confidence=0.95,
    ),
    Rules((r"ho \d{1,3} anni(?! di)<end>",), topic="user.age", confidence=0.85),
    Rules(
        (
            r"(?:io )?(?:abito|vivo|viviamo|abitiamo|risiedo) <very>(?:a|ad|in|nel|nella|nei|"
            r"vicino a|fuori) (?!pace|un sogno|un mondo|attesa|paura|quest|costante|modo)\w",
            r"il mio indirizzo(?: di casa)? è (?=[^?]{0,60}\d)\w",
            r"mi sono (?:appena )?trasferit[oa] a <cap>",
        ),
        topic="user.address",
        confidence=0.85,
    ),
    Rules((r"(?:io )?(?:vengo da|sono (?:originari[oa] )?di) <cap>",), topic="user.origin"),
    Rules(
        (r"la mia (?:e-?mail|mail|posta)(?: personale| di lavoro)? è <email>",),
        topic="user.email",
        confidence=0.95,
    ),
    Rules(
        (
            r"il mio (?:numero(?: di telefono| di cellulare)?|telefono|cellulare) è(?: il)? "
            r"<number>",
        ),
        topic="user.phone",
        confidence=0.95,
    ),
    Rules(
        (
            r"(?:io )?lavoro <very>(?:per|presso|da|alla|all'|al|in) ?(?:una? |un'|la |il |"
            r"l')?(?:piccola |grande )?(?:<cap>|azienda|ditta|banca|scuola|ospedale|università|"
            r"negozio|ristorante|fabbrica|ufficio|startup|agenzia|studio|comune|clinica|"
            r"laboratorio|ong|farmacia|libreria|hotel|museo)\b",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:io )?lavoro <very>come (?!sempre|un matto|una matta|un pazzo|al solito)\w",
            r"(?:io )?sono <very>(?:un |una |un')?<job><end>",
            r"(?:faccio (?:il|la|l'))(?= ?<job>)",
            r"studio (?!questo|molto|per|tanto|il |la )\w+[\w ]{0,40} (?:a|all'|alla) ?<cap>",
        ),
        topic="user.job",
        confidence=0.85,
    ),
    Rules(
        (
            r"<my> <relation> si chiama <word>",
            r"(?:io ho|ho|abbiamo) (?:un|una|due|tre|quattro|cinque|\d+) (?:figli[oae]?|"
            r"bambin[ioae]|fratell[io]|sorell[ae]|can[ei]|gatt[ioae]|nipoti)(?:<end>| che si "
            r"chiama| di nome )",
            r"<my> <relation> (?:ha \d+ (?:anni|mesi)|è (?:allergic[oa]|vegan[oa]|vegetarian[oa]|"
            r"celiac[oa]|diabetic[oa])|usa la sedia a rotelle|lavora (?:per|come|alla) |vive a )",
        ),
        confidence=0.85,
    ),
    Rules(
        (
            r"<my> (?P<thing>capo|responsabile|manager|medico|dentista|avvocat[oa]|commercialista) "
            r"(?:è|si chiama) (?:la |il |dottoressa |dottor |signora? )*(?-i:[A-ZÀ-Ý])[\w-]+<end>",
        ),
        topic="role:{thing}",
        about_user=None,
    ),
    Rules(
        (
            r"(?:io )?sono <very>(?:un |una )?<trait><end>",
            r"(?:io )?sono <very>(?:allergic[oa]|intollerante) (?:a|al|alla|alle|ai|agli|allo|"
            r"all') ?(?!te|questo|lunedì)\w",
            r"(?:ho|soffro di) (?:un'allergia|il diabete|diabete|asma|l'asma|celiachia|epilessia|"
            r"emicrania)\b",
            r"non (?:mangio|bevo|fumo|consumo)(?: mai| più)? (?!niente|nulla|altro|ora|adesso|"
            r"questo)\w",
            r"non (?:bevo|fumo|guido)<end>",
        ),
        confidence=0.9,
    ),
    Rules(
        (r"parlo <very>(?:l')?<language>", r"la mia (?:madrelingua|lingua madre) è \w"),
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:io )?preferisco <very>(?!\w+[aei]re[.! ]*$)(?P<rest><object>)",
            r"(?:a me )?(?:non )?mi piac(?:e|ciono) <very>(?P<rest>(?!da|se|(?:il|la|lo|i|le|un|"
            r"una) (?:<made>)\b)<object>)",
            r"non mi piac(?:e|ciono) <very>(?P<rest><object>)",
            r"(?:io )?(?:odio|detesto|adoro|amo|non sopporto) (?P<rest><object>)",
        ),
        topic="preference:{thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (r"(?:il|la) (?:mio|mia) (?P<thing>(?!parte|momento|scena)[\w-]+) preferit[oa] è \w",),
        topic="preference:favourite {thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (
            r"(?:per favore,? )?(?:rispondi|rispondimi|scrivi|scrivimi|parla|parlami) sempre in "
            r"<language>",
            r"(?:d'ora in poi|da ora in poi|da adesso in poi),? (?:rispondi|rispondimi|scrivi|"
            r"scrivimi|parla|parlami)(?: sempre)? in <language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:d'ora in poi|da ora in poi|da adesso in poi|in futuro),? (?!vedremo|si vedrà)\w",
            r"(?:per favore,? )?(?:usa|rispondi|scrivi|metti|aggiungi|esegui|controlla|cita|evita|"
            r"chiamami) sempre \w",
            r"(?:per favore,? )?non (?:usare|mettere|cancellare|scrivere|aggiungere|rispondere|"
            r"fare|chiamarmi|eliminare) mai \w",
        ),
        kind="requirement",
        about_user=None,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:abbiamo|il team ha|la squadra ha|ho) (?:finalmente |già )?(?:deciso|concordato|"
            r"stabilito) (?:di (?:usare|utilizzare|adottare|passare|migrare|mantenere|non usare|"
            r"rimandare|lanciare|pubblicare|sostituire|ospitare|abbandonare|comprare|vendere)|"
            r"che)\b",
            r"(?:abbiamo scelto|abbiamo optato per|il team ha scelto) (?!di|il (?:primo|secondo)|"
            r"la (?:prima|seconda)|questo)\w",
            r"è stato deciso (?:di|che)\b",
        ),
        kind="decision",
        about_user=False,
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:la|il|nostra|mia) (?P<thing>(?:scadenza|data di consegna|data limite|deadline|"
            r"termine|consegna)(?: (?:per|del|della|di|dell') ?[\w' -]{2,50}?)?) (?:è|scade|è "
            r"fissata? per) (?:<date>|<day>)",
            r"(?:devo|dobbiamo) consegnare (?P<thing>[\w' -]{2,50}?) (?:entro )?<date>",
            r"(?:la|il|mia|mio) (?P<thing>[\w' -]{2,50}?) (?:va consegnat[oa]|deve essere "
            r"(?:consegnat[oa]|pront[oa]|finit[oa])|scade) (?:entro |per )?(?:<date>)",
        ),
        topic="deadline:{thing}",
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:in|per|nel) (?:questo |nostro |il nostro )?(?:progetto|repository|repo|team|"
            r"codice)[\w ]{0,20},? (?:usiamo|utilizziamo|scriviamo|seguiamo) \w",
            r"(?:usiamo|utilizziamo|il nostro team usa|questo progetto usa|il progetto usa) "
            r"(?!questo|questa|troppo|troppi|il |la |lo |le |i |gli |una? )\w",
            r"(?:la nostra convenzione|il nostro stile di codice|il nostro stack|il nostro backend|"
            r"il ramo principale) (?:è|si chiama) (?!giù|rotto|lento|non)\w",
        ),
        about_user=False,
        general=True,
    ),
)

TABLE = Table(
    code="it",
    rules=_RULES,
    explicit=(
        r"(?:per favore,? )?(?:ricorda|ricordati|ricordatevi|non dimenticare|non dimenticarti|"
        r"tieni (?:a mente|presente|conto)|segnati|annota|prendi nota)(?: bene| sempre| per la "
        r"prossima volta)? che (?!ora|giorno|tempo)",
        r"(?:per favore,? )?(?:ricorda|ricordati|annota|segnati|memorizza)(?: questo| quanto "
        r"segue)? ?: ?",
        r"per (?:la prossima volta|il futuro|riferimento) ?[:,] ?",
    ),
    openers=r"ok|va bene|oh|ah|e|ma|allora|comunque|a proposito|tra l'altro|inoltre|ciao|salve|"
    r"buongiorno|buonasera|grazie(?: mille)?|sì|per tua informazione|sappi che|devi sapere che|in "
    r"generale|ps|importante|nota|come sai|perché|siccome|dato che|visto che|personalmente|in "
    r"realtà|perfetto",
    conjunctions="e|ed|ma|perché|siccome|dato che|quindi|visto che",
    starters=r"io|mi|il mio|la mia|mio|mia|sono|ho|vivo|abito|lavoro|preferisco|puoi|potresti|"
    r"questo|lui|lei|ora|adesso|grazie",
    questions=r"puoi|potresti|può|che|cosa|come|qual|quale|quali|chi|dove|quando|perché|quanto|"
    r"quanti|devo|dovrei|hai|sai|mi consigli|mi aiuti|vero|c'è|ci sono",
    doubts=r"se|forse|magari|probabilmente|credo|penso|suppongo|immagino|una volta|prima|dice|"
    r"dicono|ha detto|secondo|non sono sicur[oa]|non ancora|vorrei|preferirei|sarebbe|potrebbe|non "
    r"so|a volte|sembra|scherzo|scherzavo|un tempo",
    conditions=r"se|immagina|immaginiamo|supponiamo|fai finta|facciamo finta|ha detto|dice|forse|"
    r"nel (?:film|libro|gioco)|nella (?:storia|canzone)|frase|certo,? perché|una volta|fantastico",
    passing=r"oggi|stasera|stamattina|domani|ieri|in questo momento|per ora|al momento|questa "
    r"(?:settimana|mattina|sera|notte)|tra \d+ minuti|adesso",
    deictic=r"tuo|tua|tuoi|tue|questa|questo(?! (?:progetto|repository|repo|team))|questi|queste|"
    r"qui|idea|proposta|risposta|versione|opzione|(?:prim[oa]|second[oa]|terz[oa]|ultim[oa])",
    refusals=r"non (?:ricordare|ricordarti|salvare|memorizzare|annotare|ricordartelo)|(?<!non "
    r")dimentica (?:che|quello|questo|ciò)|resti tra noi|tra noi",
    tasks=r"(?:(?:per favore,?|puoi|potresti|ora|aiutami a) )*(?:traduci|tradurre|correggi|"
    r"correggere|riassumi|riassumere|riscrivi|riscrivere|riformula|immagina|fai finta|fingi|sei "
    r"un[a']?|agisci|migliora|(?:scrivi|scrivimi|crea) (?:un[a']? ?)?(?:[\w-]+ ){0,3}(?:storia|"
    r"poesia|mail|e-mail|lettera|testo|canzone|dialogo|discorso|messaggio|frase|tema|racconto)|"
    r"ecco (?:il|la|mio|mia|il mio|la mia|un|una) (?:testo|mail|lettera|bozza|storia|articolo)|"
    r"come si dice)",
    first_person=r"io|mi|mio|mia|miei|mie|me|sono|ho|vivo|abito|lavoro|preferisco|odio",
    typical=r"il|in|ora|poi|gli|di|che|è|non|sono|questo|questa|quando|ho|della|dei|io|alla|mio|"
    r"mia|succedesuccede|con|e",
    fragments=_FRAGMENTS,
)
