"""French: what lasts, and what only looks like it."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules, Table

_FRAGMENTS = {
    "very": r"(?:(?:très|vraiment|aussi|toujours|surtout|personnellement|actuellement|maintenant|"
    r"généralement|plutôt|beaucoup|bien|gravement|désormais|franchement|clairement) )*",
    "month": r"janvier|février|fevrier|mars|avril|mai|juin|juillet|août|aout|septembre|octobre|"
    r"novembre|décembre|decembre",
    "date": r"(?:(?:le |au )?\d{1,2}(?:er)? (?:<month>)\b|(?:le )?\d{1,2}/\d{1,2}|\d{4}-\d\d-\d\d|"
    r"(?:fin |début |en )(?:<month>)\b)",
    "day": r"(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)",
    "end": r"(?=\s*(?:$|[^\w\s]|(?:et|mais|car|donc|ou|depuis|à|de|au|dans|avec|chez)\b))",
    "object": r"(?!(?:ça|ca|cela|ce|cet|cette|ces|ta|ton|tes|votre|vos|la (?:première|deuxième|"
    r"seconde|troisième|dernière|version)|le (?:premier|deuxième|second|troisième|dernier)|l'autre|"
    r"celle|celui|ceux|bien|beaucoup|que tu|quand|comment|te|vous|toi|lui|elle|les deux|tout|"
    r"tous)\b)\w",
    "relation": r"(?:femme|mari|épouse|époux|conjointe?|compagnon|compagne|fiancée?|copine|copain|"
    r"fils|fille|mère|père|maman|papa|frère|sœur|soeur|grand-mère|grand-père|neveu|nièce|tante|"
    r"oncle|chien|chienne|chat|chatte|cheval|lapin|bébé|colocataire|petite? (?:frère|sœur|soeur)|"
    r"grande? (?:frère|sœur|soeur))",
    "job": r"(?:prof(?:esseure?)?|enseignante?|institut(?:eur|rice)|ingénieure?|développeu(?:r|se)|"
    r"médecin|infirmi(?:er|ère)|avocate?|architecte|comptable|consultante?|directeur|directrice|"
    r"étudiante?|écrivain|journaliste|traduct(?:eur|rice)|photographe|artiste|musicien(?:ne)?|"
    r"cuisini(?:er|ère)|boulang(?:er|ère)|électricien(?:ne)?|plombier|mécanicien(?:ne)?|"
    r"agricult(?:eur|rice)|pilote|pompier|dentiste|vétérinaire|pharmacien(?:ne)?|psychologue|"
    r"chirurgien(?:ne)?|biologiste|chimiste|chercheu(?:r|se)|bibliothécaire|entrepreneu(?:r|se)|"
    r"retraitée?|graphiste|designer|chef de projet|technicien(?:ne)?|secrétaire|coiffeu(?:r|se)|"
    r"fonctionnaire|doctorante?)",
    "trait": r"(?:végane?|vegan|végétarien(?:ne)?|diabétique|daltonien(?:ne)?|gauch(?:er|ère)|"
    r"asthmatique|c(?:œ|oe)liaque|mariée?|divorcée?|célibataire|veu(?:f|ve))",
    "made": r"idée|ton|ta|première|deuxième|seconde|version|façon|résultat|style|titre|texte|rendu|"
    r"design|couleur|nouvelle?|nouveau|début|fin|dernier|dernière|code|exemple|approche|manière|"
    r"réponse|proposition|suggestion|logo|nom|plan|structure|mise",
    "language": r"(?:français|anglais|allemand|espagnol|italien|portugais|arabe|russe|chinois|"
    r"japonais|néerlandais|polonais|turc|breton|roumain|grec)",
}

_NOT_NAMES = r"(?!(?:pas|plus|comment|aussi|toujours|comme|ainsi|déjà|si|personne)\b)"

_RULES = (
    Rules(
        (
            rf"je m'appelle {_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"mon (?:nom|prénom)(?: complet| de famille)? (?:est|c'est) {_NOT_NAMES}(?:<name>|"
            rf"<word>)<end>",
            rf"(?:tu peux |vous pouvez )?(?:m'appeler|appelle-moi|appelez-moi) {_NOT_NAMES}<name>",
        ),
        topic="user.name",
        confidence=0.95,
    ),
    Rules(
        (
            r"mon anniversaire(?:,)? (?:est|c'est|tombe) <date>",
            r"je suis née? (?:<date>|en \d{4}|à <cap>)",
        ),
        topic="user.birthday",
        confidence=0.95,
    ),
    Rules((r"j'ai \d{1,3} ans(?! de)<end>",), topic="user.age", confidence=0.85),
    Rules(
        (
            r"(?:j'habite|je vis|j'habite <very>|nous habitons|nous vivons|on habite|on vit)(?: "
            r"maintenant| actuellement| toujours| désormais)? (?:à|au|en|dans (?:le|la|les|une?|"
            r"l')|aux|sur|près de|chez) (?!l'heure|peine|moitié|couteaux|l'instant|enfer|ce|rêve|"
            r"attendant|peur)[\w']",
            r"mon adresse(?: postale)? (?:est|c'est) (?:le |au )?(?=[^?]{0,60}\d)\w",
            r"(?:j'ai|je viens de) (?:récemment )?(?:déménagé|déménager) à <cap>",
        ),
        topic="user.address",
        confidence=0.85,
    ),
    Rules((r"je (?:viens|suis originaire) (?:de|du|d') ?<cap>",), topic="user.origin"),
    Rules(
        (r"mon (?:adresse )?(?:e-?mail|mail|courriel)(?: pro| perso)? (?:est|c'est) <email>",),
        topic="user.email",
        confidence=0.95,
    ),
    Rules(
        (
            r"mon (?:numéro(?: de téléphone| de portable)?|téléphone|portable) (?:est|c'est)(?: "
            r"le)? <number>",
        ),
        topic="user.phone",
        confidence=0.95,
    ),
    Rules(
        (
            r"je (?:travaille|bosse) <very>(?:chez (?!moi|toi|nous|lui|elle)\w|pour (?:(?:une?|la|"
            r"le|l') ?)?(?:<cap>|entreprise|mairie|association|startup|agence|banque|ong|petite "
            r"entreprise|grande entreprise))",
            r"je travaille <very>(?:à|au|à la|dans) (?:une?|l'|la |le )?(?:hôpital|école|mairie|"
            r"université|banque|usine|cabinet|entreprise|startup|agence|<cap>)",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"je (?:travaille|bosse) <very>(?:comme|en tant que) (?!un|une|ça|d'hab|toujours|fou|"
            r"dingue)\w",
            r"je suis <very>(?:une? |le |la )?(?:ancien(?:ne)? |jeune )?<job><end>",
            r"j'étudie (?!ça|le sujet|la question|cette)[\w']+[\w ']{2,40} à <cap>",
        ),
        topic="user.job",
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:ma|mon|notre) <relation> s'appelle <word>",
            r"le (?:nom|prénom) de (?:ma|mon|notre) <relation> est <word>",
            r"(?:j'ai|nous avons|on a) (?:une?|deux|trois|quatre|cinq|\d+) (?:enfants?|fils|"
            r"filles?|frères?|sœurs?|soeurs?|chiens?|chats?|petits-enfants)(?:<end>| qui s'appell| "
            r"nommée?)",
            r"(?:ma|mon|notre) <relation> (?:a \d+ (?:ans|mois)|est <very>(?:allergique|végan\w*|"
            r"végétar\w*|diabétique|en fauteuil)|travaille (?:chez|comme)|habite (?:à|en|au) )",
        ),
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:ma|mon|notre) (?P<thing>chef|cheffe|patron|patronne|manager|médecin|dentiste|"
            r"avocate?|comptable|responsable|directrice|directeur) (?:est|s'appelle) (?:madame |"
            r"monsieur |m\. |mme )?(?-i:[A-ZÀ-Ý])[\w-]+<end>",
        ),
        topic="role:{thing}",
        about_user=None,
    ),
    Rules(
        (
            r"je suis <very>(?:une? )?<trait><end>",
            r"je suis <very>(?:allergique|intolérante?) (?:à|au|aux) (?!toi|ça|lundi|tes|la "
            r"bêtise)\w",
            r"je (?:ne |n')?(?:mange|bois|fume|consomme)(?: jamais| pas| plus)+ (?:de |d'|du )\w",
            r"je ne (?:bois|fume|conduis) (?:jamais|pas)<end>",
            r"j'ai (?:une allergie|du diabète|de l'asthme|le diabète|une maladie) ?\w",
        ),
        confidence=0.9,
    ),
    Rules(
        (r"je parle <very>(?:couramment )?(?:le |l')?<language>", r"ma langue maternelle est \w"),
        confidence=0.85,
    ),
    Rules(
        (
            r"je préfère <very>(?!\w+(?:er|ir|re)[.! ]*$)(?P<rest><object>)",
            r"j'(?:aime|adore) <very>(?P<rest>(?:l'|la |le |les |un |une |faire |lire |courir |"
            r"voyager|cuisiner|le fait )(?!(?:<made>)\b)\w)",
            r"j'ai horreur (?:de |du |des |d')(?P<rest><object>)",
            r"je (?:déteste|hais|ne supporte pas|n'aime pas|n'aime pas du tout) "
            r"<very>(?P<rest><object>)",
        ),
        topic="preference:{thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (r"(?:mon|ma) (?P<thing>(?!moment|passage|partie)[\w-]+) préférée? (?:est|c'est) \w",),
        topic="preference:favourite {thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (
            r"(?:réponds|répondez|parle|écris)(?:-moi)? (?:toujours |désormais |dorénavant )+en "
            r"<language>",
            r"(?:désormais|dorénavant|à partir de maintenant),? (?:réponds|répondez|parle|"
            r"écris)(?:-moi)? en <language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:à partir de maintenant|désormais|dorénavant|à l'avenir),? (?!on verra|nous "
            r"verrons)\w",
            r"(?:réponds|utilise|écris|mets|ajoute|lance|vérifie|donne|fais|cite|évite|"
            r"emploie)(?:-moi)? (?:toujours|systématiquement|désormais) \w",
            r"ne (?:me )?\w+(?:-moi)? jamais (?!dit|vu|été|su|rien)\w",
            r"n'(?:utilise|ajoute|emploie|écris|efface|oublie)s? jamais (?!dit|vu)\w",
        ),
        kind="requirement",
        about_user=None,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:nous avons|on a|l'équipe a|j'ai) (?:finalement |enfin |tous )?(?:décidé|convenu|"
            r"choisi) (?:d'utiliser|d'adopter|de (?:passer (?:à|sur|au) <cap>|migrer|garder <cap>|"
            r"ne (?:pas|plus) utiliser|livrer|publier|stocker|déployer|remplacer|supprimer|"
            r"héberger|lancer|repousser|reporter|standardiser)|que|d'abandonner|d'héberger)\b",
            r"(?:nous avons|on a|l'équipe a) (?:opté pour|choisi|retenu) (?!de|le (?:premier|"
            r"second)|ça|la (?:première|seconde))\w",
            r"il a été décidé (?:que|de|d')",
        ),
        kind="decision",
        about_user=False,
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:la|notre|ma) (?P<thing>(?:date limite|date de rendu|date butoir|deadline|échéance|"
            r"date de livraison|date de remise)(?: (?:pour|du|de|des) [\w' -]{2,50}?)?) (?:est|"
            r"c'est)(?: fixée?)? (?:<date>|(?:le )?<day>)",
            r"(?:je dois|nous devons|on doit) (?:rendre|livrer|envoyer|déposer) (?P<thing>[\w' "
            r"-]{2,50}?) (?:pour |avant |d'ici )?<date>",
            r"(?:le|la|mon|ma|notre) (?P<thing>[\w' -]{2,50}?) (?:est à rendre|doit être "
            r"(?:rendue?|livrée?|terminée?|prête?|envoyée?|finie?|déposée?)) (?:pour |avant |d'ici "
            r")?(?:<date>)",
        ),
        topic="deadline:{thing}",
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:dans|pour|sur) (?:ce|notre|le) (?:projet|dépôt|repo|code)[\w ]{0,20},? (?:on|"
            r"nous) (?:utilise|utilisons|emploie|écrit|écrivons) \w",
            r"(?:nous utilisons|on utilise|notre équipe utilise|ce projet utilise|le projet "
            r"utilise) (?!ça|cette|ce |trop|le |la |les |une? |beaucoup|tout|des )\w",
            r"notre (?:convention|style de code|stack|pile technique|backend|branche principale|"
            r"réunion) (?:est|s'appelle|a lieu) (?!en panne|cassée?|lente?|nulle?|pas|trop)\w",
        ),
        about_user=False,
        general=True,
    ),
)

TABLE = Table(
    code="fr",
    rules=_RULES,
    explicit=(
        r"(?:s'il te plaît,? |stp,? )?(?:souviens-toi|rappelle-toi|souvenez-vous|rappelez-vous)(?: "
        r"bien)? (?:que |qu')",
        r"(?:s'il te plaît,? |stp,? )?(?:n'oublie pas|n'oubliez pas|oublie pas) (?:que |qu')",
        r"(?:retiens|retenez|note|notez|garde en tête|gardez en tête|mémorise)(?: bien)? (?:que |"
        r"qu')",
        r"(?:retiens|à retenir|note|mémorise)(?: ceci| bien)? ?: ?",
        r"pour (?:info|la prochaine fois|référence) ?: ?",
    ),
    openers=r"ok|oh|ah|et|mais|alors|donc|au fait|d'ailleurs|bonjour|salut|coucou|merci(?: "
    r"beaucoup)?|oui|non|pour info|sache que|sachez que|à savoir que|en fait|par ailleurs|en "
    r"général|bref|ps|il faut savoir que|je précise que|personnellement|car|parce que|comme|bon|"
    r"moi",
    conjunctions="et|mais|car|donc|parce que|puisque|comme",
    starters="je|j'\\w+|nous|on|mon|ma|notre|tu|peux-tu|il|elle|c'est|alors|maintenant|merci",
    questions=r"peux-tu|tu peux|pouvez-vous|vous pouvez|pourrais-tu|pourriez-vous|est-ce|qu'est-ce|"
    r"comment|que|quoi|qui|où|quand|pourquoi|quel|quelle|quels|quelles|combien|dois-je|as-tu|es-tu",
    doubts=r"si|s'il|peut-être|probablement|sans doute|je crois|je pense|j'imagine|il paraît|"
    r"apparemment|avant|autrefois|jadis|dit|disait|prétend|raconte|selon|pas sûre?|pas encore|"
    r"j'aimerais|je voudrais|voudrais|aimerais|serais|sais pas|parfois|je rigole|je plaisante",
    conditions=r"si|s'il|imagine|imaginons|supposons|suppose|admettons|fais comme|dit|disait|"
    r"peut-être|dans (?:le film|le livre|l'histoire)|phrase|avant|super,? je|génial,? je",
    passing=r"aujourd'hui|ce soir|ce matin|demain|hier|en ce moment|pour l'instant|pour le moment|"
    r"là|tout de suite|cet après-midi|cette semaine|dans \d+ minutes",
    deictic=r"ta|ton|tes|votre|vos|cette|ces|ce(?! (?:projet|dépôt|repo))|ici|idée|proposition|"
    r"réponse|version|option|(?:première|deuxième|seconde|troisième|dernière|premier|dernier|"
    r"second)",
    refusals=r"ne (?:retiens|note|mémorise|garde|retenez|notez|te souviens|l'enregistre)[\w "
    r"']{0,20}pas|n'enregistre[\w ']{0,20} pas|entre nous|oublie (?:ça|que|ce)|ne pas (?:retenir|"
    r"enregistrer)",
    tasks=r"(?:(?:peux-tu|tu peux|s'il te plaît|stp|maintenant|pourrais-tu|aide-moi à) "
    r")*(?:tradui[st]\w*|corrige[rz]?|reformule[rz]?|résume[rz]?|réécri[st]\w*|imagine|imaginons|"
    r"fais comme si|tu es une?|joue|améliore[rz]?|écri[st](?:-moi)? (?:une? )?(?:[\w-]+ "
    r"){0,3}(?:histoire|poème|mail|e-mail|lettre|texte|chanson|dialogue|discours|message|phrase|"
    r"rédaction)|voici (?:le|la|mon|ma|un|une) (?:texte|mail|lettre|brouillon|histoire|article|"
    r"message)|comment (?:dit|écrit)-on|comment on dit)",
    first_person=r"je|j'\w+|moi|me|m'\w+|mon|ma|mes",
    typical=r"je|le|la|les|et|est|nous|mon|ma|pas|on",
    fragments=_FRAGMENTS,
)
