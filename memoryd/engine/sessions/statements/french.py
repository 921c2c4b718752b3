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
    r"seconde|"
    r"troisième|dernière|version)|le (?:premier|deuxième|second|troisième|dernier)|l'autre|celle|"
    r"celui|ceux|bien|beaucoup|que tu|quand|comment|te|vous|toi|lui|elle|les deux|tout|tous)\b)\w",
    "relation": r"(?:femme|mari|épouse|époux|conjointe?|compagnon|compagne|fiancée?|copine|copain|"
    r"fils|"
    r"fille|mère|père|maman|papa|frère|sœur|soeur|grand-mère|grand-père|neveu|nièce|tante|oncle|"
    r"chien|chienne|chat|chatte|cheval|lapin|bébé|colocataire|petite? (?:frère|sœur|soeur)|"
    r"grande? (?:frère|sœur|soeur))",
    "job": r"(?:prof(?:esseure?)?|enseignante?|institut(?:eur|rice)|ingénieure?|développeu(?:r|se)|"
    r"médecin|"
    r"infirmi(?:er|ère)|avocate?|architecte|comptable|consultante?|directeur|directrice|étudiante?|"
    r"écrivain|journaliste|traduct(?:eur|rice)|photographe|artiste|musicien(?:ne)?|cuisini(?:er|"
    r"ère)|"
    r"boulang(?:er|ère)|électricien(?:ne)?|plombier|mécanicien(?:ne)?|agricult(?:eur|rice)|pilote|"
    r"pompier|dentiste|vétérinaire|pharmacien(?:ne)?|psychologue|chirurgien(?:ne)?|biologiste|"
    r"chimiste|"
    r"chercheu(?:r|se)|bibliothécaire|entrepreneu(?:r|se)|retraitée?|graphiste|designer|chef de "
    r"projet|"
    r"technicien(?:ne)?|secrétaire|coiffeu(?:r|se)|fonctionnaire|doctorante?|végane?|vegan|"
    r"végétarien(?:ne)?|diabétique|daltonien(?:ne)?|gauch(?:er|ère)|asthmatique|c(?:œ|oe)liaque|"
    r"intolérante? au \w+|mariée?|divorcée?|célibataire|veu(?:f|ve)|allerg)",
    "made": r"idée|ton|ta|première|deuxième|seconde|version|façon|résultat|style|titre|texte|rendu|"
    r"design|couleur|nouvelle?|nouveau|début|fin|dernier|dernière|code|exemple|approche|manière|"
    r"réponse|"
    r"proposition|suggestion|logo|nom|plan|structure|mise",
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
    Rules((r"j'ai \d{1,3} ans<end>",), topic="user.age", confidence=0.85),
    Rules(
        (
            r"(?:j'habite|je vis|j'habite <very>|nous habitons|nous vivons|on habite|on vit)"
            r"(?: maintenant| actuellement| toujours| désormais)? (?:à|au|en|dans (?:le|la|les|"
            r"une?|l')|aux|sur|près de|chez) "
            r"(?!l'heure|peine|moitié|couteaux|l'instant|enfer|ce|rêve|attendant|peur)[\w']",
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
            r"le|l') ?)?(?:<cap>|"
            r"entreprise|mairie|association|startup|agence|banque|ong|petite entreprise|grande "
            r"entreprise))",
            r"je travaille <very>(?:à|au|à la|dans) (?:une?|l'|la |le )?(?:hôpital|école|mairie|"
            r"université|"
            r"banque|usine|cabinet|entreprise|startup|agence|<cap>)",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"je (?:travaille|bosse) <very>(?:comme|en tant que) (?!un|une|ça|d'hab|toujours|fou|"
            r"dingue)\w",
            r"je suis <very>(?:une? |le |la )?(?:ancien(?:ne)? |jeune )?<job>(?:<end>|iques? )",
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
            r"filles?|frères?|"
            r"sœurs?|soeurs?|chiens?|chats?|petits-enfants)(?:<end>| qui s'appell| nommée?)",
            r"(?:ma|mon|notre) <relation> (?:a \d+ (?:ans|mois)|est <very>(?:allergique|végan\w*|"
            r"végétar\w*|"
            r"diabétique|en fauteuil)|travaille (?:chez|comme)|habite (?:à|en|au) )",
        ),
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:ma|mon|notre) (?P<thing>chef|cheffe|patron|patronne|manager|médecin|dentiste|"
            r"avocate?|"
            r"comptable|responsable|directrice|directeur) (?:est|s'appelle) (?:madame |monsieur |"
            r"m\. |mme )?"
            r"(?-i:[A-ZÀ-Ý])[\w-]+<end>",
        ),
        topic="{thing}",
        about_user=None,
    ),
    Rules(
        (
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
            r"je préfère <very>(?P<rest><object>)",
            r"j'(?:aime|adore) <very>(?P<rest>(?:l'|la |le |les |un |une |faire |lire |courir |"
            r"voyager|"
            r"cuisiner|le fait )(?!(?:<made>)\b)\w)",
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
            r"écris)(?:-moi)? en "
            r"<language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:à partir de maintenant|désormais|dorénavant|à l'avenir),? (?!on verra|nous "
            r"verrons)\w",
            r"(?:réponds|utilise|écris|mets|ajoute|lance|vérifie|donne|fais|cite|évite|emploie)"
            r"(?:-moi)? (?:toujours|systématiquement|désormais) \w",
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
            r"choisi) "
            r"(?:d'utiliser|d'adopter|de (?:passer (?:à|sur|au) <cap>|migrer|"
            r"garder <cap>|ne (?:pas|plus) utiliser|livrer|publier|stocker|déployer|remplacer|"
            r"supprimer|"
            r"héberger|lancer|repousser|reporter|standardiser)|que|d'abandonner|"
            r"d'héberger)\b",
            r"(?:nous avons|on a|l'équipe a) (?:opté pour|choisi|retenu) (?!de|le (?:premier|"
            r"second)|ça|la "
            r"(?:première|seconde))\w",
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
            r"date de "
            r"livraison|date de remise)(?: (?:pour|du|de|des) [\w' -]{2,50}?)?) (?:est|c'est)(?: "
            r"fixée?)? "
            r"(?:<date>|(?:le )?<day>)",
            r"(?:le|la|mon|ma|notre) (?P<thing>[\w' -]{2,50}?) (?:est à rendre|doit être "
            r"(?:rendue?|livrée?|"
            r"terminée?|prête?|envoyée?|finie?|déposée?)) (?:pour |avant |d'ici )?(?:<date>)",
        ),
        topic="deadline:{thing}",
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:dans|pour|sur) (?:ce|notre|le) (?:projet|dépôt|repo|code)[\w ]{0,20},? (?:on|"
            r"nous) "
            r"(?:utilise|utilisons|emploie|écrit|écrivons) \w",
            r"(?:nous utilisons|on utilise|notre équipe utilise|ce projet utilise|le projet "
            r"utilise) "
            r"(?!ça|cette|ce |trop|le |la |les |une? |beaucoup|tout|des )\w",
            r"notre (?:convention|style de code|stack|pile technique|backend|branche principale|"
            r"réunion) "
            r"(?:est|s'appelle|a lieu) (?!en panne|cassée?|lente?|nulle?|pas|trop)\w",
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
        r"bien)? "
        r"(?:que |qu')",
        r"(?:s'il te plaît,? |stp,? )?(?:n'oublie pas|n'oubliez pas|oublie pas) (?:que |qu')",
        r"(?:retiens|retenez|note|notez|garde en tête|gardez en tête|mémorise)(?: bien)? (?:que |"
        r"qu')",
        r"(?:retiens|à retenir|note|mémorise)(?: ceci| bien)? ?: ?",
        r"pour (?:info|la prochaine fois|référence) ?: ?",
    ),
    openers=r"ok|oh|ah|et|mais|alors|donc|au fait|d'ailleurs|bonjour|salut|coucou|merci(?: "
    r"beaucoup)?|oui|"
    r"non|pour info|sache que|sachez que|à savoir que|en fait|par ailleurs|en général|bref|ps|"
    r"il faut savoir que|je précise que|personnellement|car|parce que|comme|bon|moi",
    conjunctions="et|mais|car|donc|parce que|puisque|comme",
    starters="je|j'\\w+|nous|on|mon|ma|notre|tu|peux-tu|il|elle|c'est|alors|maintenant|merci",
    questions=r"peux-tu|tu peux|pouvez-vous|vous pouvez|pourrais-tu|pourriez-vous|est-ce|qu'est-ce|"
    r"comment|que|quoi|qui|où|quand|pourquoi|quel|quelle|quels|quelles|combien|dois-je|as-tu|es-tu",
    doubts=r"si|s'il|peut-être|probablement|sans doute|je crois|je pense|j'imagine|il paraît|"
    r"apparemment|avant|autrefois|jadis|dit|disait|prétend|raconte|selon|pas sûre?|pas encore|"
    r"j'aimerais|je voudrais|voudrais|aimerais|serais|sais pas|parfois|je rigole|je plaisante",
    conditions=r"si|s'il|imagine|imaginons|supposons|suppose|admettons|fais comme|dit|disait|"
    r"peut-être|"
    r"dans (?:le film|le livre|l'histoire)|phrase|avant|super,? je|génial,? je",
    passing=r"aujourd'hui|ce soir|ce matin|demain|hier|en ce moment|pour l'instant|pour le moment|"
    r"là|"
    r"tout de suite|cet après-midi|cette semaine|dans \d+ minutes",
    deictic=r"ta|ton|tes|votre|vos|cette|ces|ce(?! (?:projet|dépôt|repo))|ici|idée|proposition|"
    r"réponse|version|"
    r"option|(?:première|deuxième|seconde|troisième|dernière|premier|dernier|second)",
    refusals=r"ne (?:retiens|note|mémorise|garde|retenez|notez|te souviens|l'enregistre)[\w "
    r"']{0,20}pas|"
    r"n'enregistre[\w ']{0,20} pas|entre nous|oublie (?:ça|que|ce)|ne pas (?:retenir|enregistrer)",
    tasks=r"(?:(?:peux-tu|tu peux|s'il te plaît|stp|maintenant|pourrais-tu|aide-moi à) "
    r")*(?:tradui[st]\w*|"
    r"corrige[rz]?|reformule[rz]?|résume[rz]?|réécri[st]\w*|imagine|imaginons|fais comme si|tu es "
    r"une?|"
    r"joue|améliore[rz]?|écri[st](?:-moi)? (?:une? )?(?:[\w-]+ ){0,3}(?:histoire|poème|mail|e-mail|"
    r"lettre|"
    r"texte|chanson|dialogue|discours|message|phrase|rédaction)|voici (?:le|la|mon|ma|un|une) "
    r"(?:texte|mail|"
    r"lettre|brouillon|histoire|article|message)|comment (?:dit|écrit)-on|comment on dit)",
    first_person=r"je|j'\w+|moi|me|m'\w+|mon|ma|mes",
    fragments=_FRAGMENTS,
)
