"""Spanish: what lasts, and what only looks like it."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules, Table

_FRAGMENTS = {
    "very": r"(?:(?:muy|mucho|realmente|también|siempre|sobre todo|actualmente|ahora|generalmente|"
    r"bastante|totalmente|gravemente|desde hace \w+ \w+) )*",
    "month": r"enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|setiembre|octubre|"
    r"noviembre|diciembre",
    "date": r"(?:(?:el )?(?:día )?\d{1,2} de (?:<month>)\b|(?:el )?\d{1,2}/\d{1,2}|\d{4}-\d\d-\d\d|"
    r"(?:finales de |en |a finales de )(?:<month>)\b)",
    "day": r"(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)",
    "end": r"(?=\s*(?:$|[^\w\s]|(?:y|e|pero|porque|o|desde|en|de|con|así|para)\b))",
    "object": r"(?!(?:eso|esto|esta|este|estos|estas|ese|esa|esos|esas|tu|tus|su|la (?:primera|"
    r"segunda|tercera|última|otra|versión|opción)|el (?:primero|segundo|tercero|último|otro|"
    r"primer)|lo|que|cuando|cómo|como|todo|te|ambos|no|así|más|aquel|aquella)\b)\w",
    "relation": r"(?:mujer|esposa|esposo|marido|pareja|novia|novio|prometid[oa]|hij[oa]|madre|"
    r"padre|mamá|papá|herman[oa](?: mayor| menor)?|abuel[oa]|sobrin[oa]|tí[oa]|perr[oa]|gat[oa]|"
    r"caballo|bebé|compañer[oa] de piso|suegr[oa]|mejor amig[oa])",
    "job": r"(?:profesora?|maestr[oa]|ingenier[oa]|desarrolladora?|programadora?|médic[oa]|"
    r"doctora?|enfermer[oa]|abogad[oa]|arquitect[oa]|contable|contadora?|consultora?|directora?|"
    r"estudiante|escritora?|periodista|traductora?|fotógraf[oa]|artista|músic[oa]|cociner[oa]|"
    r"panader[oa]|electricista|fontaner[oa]|mecánic[oa]|agricultora?|piloto|bomber[oa]|dentista|"
    r"veterinari[oa]|farmacéutic[oa]|psicólog[oa]|cirujan[oa]|biólog[oa]|químic[oa]|investigadora?|"
    r"bibliotecari[oa]|empresari[oa]|jubilad[oa]|diseñadora?|técnic[oa]|secretari[oa]|peluquer[oa]|"
    r"funcionari[oa]|autónom[oa]|camarer[oa]|enólog[oa])",
    "made": r"resultado|estilo|tono|título|texto|diseño|color|nuev[oa]|final|comienzo|código|"
    r"enfoque|ejemplo|nombre|idea|propuesta|forma|manera|respuesta|plan|logo|estructura|solución|"
    r"últim[oa]",
    "trait": r"(?:vegan[oa]|vegetarian[oa]|diabétic[oa]|celíac[oa]|daltónic[oa]|zurd[oa]|"
    r"asmátic[oa])",
    "language": r"(?:español|castellano|inglés|francés|alemán|italiano|portugués|catalán|gallego|"
    r"euskera|árabe|ruso|chino|japonés)",
}

_NOT_NAMES = r"(?!(?:no|la|el|lo|así|mucho|siempre|como|cómo|desconocido|nadie|algo)\b)"

_RULES = (
    Rules(
        (
            rf"(?:yo )?me llamo {_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"mi (?:nombre|apellido)(?: completo)? es {_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"(?:puedes |podéis |puede )?(?:llámame|llamarme|llámenme|dime) "
            rf"{_NOT_NAMES}<name><end>",
        ),
        topic="user.name",
        confidence=0.95,
    ),
    Rules(
        (
            r"mi cumpleaños (?:es|cae) (?:en )?<date>",
            r"cumplo años (?:<date>)",
            r"nací (?:<date>|en \d{4}|en <cap>)",
        ),
        topic="user.birthday",
        confidence=0.95,
    ),
    Rules((r"tengo \d{1,3} años(?! de)<end>",), topic="user.age", confidence=0.85),
    Rules(
        (
            r"(?:yo |nosotros )?(?:vivo|vivimos|resido) <very>(?:en|cerca de|a las afueras de) "
            r"(?!un sueño|paz|las nubes|un mundo|este|esta|el pasado|constante|mi mundo)\w",
            r"mi (?:dirección|domicilio)(?: postal)? es (?=[^?]{0,60}\d)\w",
            r"me (?:mudé|he mudado|acabo de mudar) a <cap>",
        ),
        topic="user.address",
        confidence=0.85,
    ),
    Rules((r"soy (?:originari[oa] )?de <cap>",), topic="user.origin"),
    Rules(
        (r"mi (?:correo|e-?mail|mail)(?: electrónico| personal| del trabajo)? es <email>",),
        topic="user.email",
        confidence=0.95,
    ),
    Rules(
        (r"mi (?:número|teléfono|móvil|celular)(?: de teléfono| de móvil)? es(?: el)? <number>",),
        topic="user.phone",
        confidence=0.95,
    ),
    Rules(
        (
            r"(?:yo )?trabajo <very>(?:para|en) (?:(?:una?|el|la|los|las) )?(?:pequeñ[oa] |gran "
            r")?(?:<cap>|empresa|bodega|hospital|escuela|colegio|instituto|banco|universidad|"
            r"tienda|restaurante|fábrica|oficina|startup|agencia|despacho|ayuntamiento|clínica|"
            r"laboratorio|ong|sector|bufete|consultora|farmacia|librería|hotel|cafetería|granja|"
            r"editorial|museo|panadería)\b",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:yo )?trabajo <very>(?:como|de) (?!siempre|loc[oa]|noche|día|costumbre|un |verdad|"
            r"nuevo|lunes)\w",
            r"(?:yo )?soy <very>(?:una? )?<job><end>",
            r"estudio (?!esto|eso|mucho|para|el |la )\w+[\w ]{0,40} en <cap>",
            r"me dedico a (?:la|el|los|las) \w",
        ),
        topic="user.job",
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:mi|nuestr[oa]) <relation> se llama <word>",
            r"el nombre de (?:mi|nuestr[oa]) <relation> es <word>",
            r"(?:tengo|tenemos) (?:una?|dos|tres|cuatro|cinco|\d+) (?:hij[oa]s?|niñ[oa]s?|"
            r"herman[oa]s?|perr[oa]s?|gat[oa]s?|niet[oa]s?)(?:<end>| que se llama| llamad)",
            r"estoy (?:casad[oa]|divorciad[oa]|solter[oa]|viud[oa])<end>",
            r"soy (?:viud[oa]|solter[oa])<end>",
            r"(?:mi|nuestr[oa]) <relation> (?:tiene \d+ (?:años|meses)|es (?:alérgic[oa]|vegan[oa]|"
            r"vegetarian[oa]|celíac[oa]|diabétic[oa])|usa silla de ruedas|trabaja (?:en|como|para) "
            r"|vive en )",
        ),
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:mi|nuestr[oa]) (?P<thing>jef[ea]|médic[oa]|dentista|abogad[oa]|contable|gerente|"
            r"supervisora?|casero|directora?) (?:es|se llama) (?:la |el |señora? |doña |don "
            r")*(?-i:[A-ZÀ-Ý])[\w-]+<end>",
        ),
        topic="role:{thing}",
        about_user=None,
    ),
    Rules(
        (
            r"(?:yo )?soy <very>(?:una? )?<trait><end>",
            r"(?:yo )?soy <very>(?:alérgic[oa]|intolerante) (?:a|al|a la|a los|a las) (?!ti|eso|"
            r"los lunes|tus)\w",
            r"tengo (?:alergia a|diabetes|asma|celiaquía|epilepsia|hipertensión|intolerancia a)\b",
            r"no (?:como|bebo|fumo|consumo|tomo) (?:nunca )?(?!(?:nada|más|ahora|eso|esto|el|si|tú|"
            r"tu|yo|antes|esperaba|otros|otras|la|los|las|ese|esa|un|una|mi|ustedes|vosotros|"
            r"debería|siempre)\b)\w",
            r"nunca (?:como|bebo|fumo|uso|tomo) (?!esto|eso|est[ea]|más)\w",
        ),
        confidence=0.9,
    ),
    Rules((r"hablo <very><language>", r"mi lengua materna es \w"), confidence=0.85),
    Rules(
        (
            r"(?:yo )?prefiero <very>(?!\w+[aei]r[.! ]*$)(?P<rest><object>)",
            r"(?:a mí )?(?:no )?me (?:gustan?|encantan?) <very>(?P<rest>(?!que|(?:el|la|los|las|un|"
            r"una) (?:<made>)\b)<object>)",
            r"(?:yo )?(?:odio|detesto|aborrezco|no soporto|adoro|amo) (?P<rest><object>)",
        ),
        topic="preference:{thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (r"mi (?P<thing>(?!parte|momento|escena)[\w-]+) (?:favorit[oa]|preferid[oa]) es \w",),
        topic="preference:favourite {thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (
            r"(?:por favor,? )?(?:responde|respóndeme|contesta|contéstame|escribe|háblame|habla) "
            r"(?:siempre )(?:en )<language>",
            r"(?:a partir de ahora|de ahora en adelante|en adelante|desde ahora),? (?:por favor "
            r")?(?:responde|respóndeme|contesta|contéstame|escribe|háblame|habla)(?: siempre)? en "
            r"<language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:a partir de ahora|de ahora en adelante|en adelante|desde ahora),? (?!veremos|ya "
            r"veremos)\w",
            r"(?:por favor,? )?(?:usa|utiliza|responde|escribe|pon|añade|ejecuta|revisa|cita|evita|"
            r"llámame|contesta) siempre \w",
            r"(?:por favor,? )?(?:nunca|jamás) (?:uses|utilices|pongas|borres|respondas|escribas|"
            r"añadas|hagas|me llames|subas|elimines)\b",
            r"siempre (?:usa|utiliza|responde|escribe|pon|añade|ejecuta|revisa|cita) \w",
        ),
        kind="requirement",
        about_user=None,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:ya |finalmente |al final )?(?:hemos decidido|decidimos|acordamos|hemos acordado|"
            r"el equipo (?:ha decidido|decidió|acordó)|he decidido) (?:usar|utilizar|adoptar|"
            r"migrar|pasar(?:nos)? a|cambiar|mantener|no (?:usar|utilizar)|desplegar|lanzar|"
            r"publicar|posponer|aplazar|que|reemplazar|almacenar|dejar de usar|contratar|vender|"
            r"comprar)\b",
            r"(?:hemos elegido|elegimos|nos decidimos por|optamos por|hemos optado por) (?!el "
            r"(?:primero|segundo)|la (?:primera|segunda)|eso|esto)\w",
            r"se (?:ha decidido|decidió|acordó) (?:que|usar|utilizar|migrar)\b",
        ),
        kind="decision",
        about_user=False,
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:la|el|nuestr[oa]|mi) (?P<thing>(?:fecha límite|fecha tope|fecha de entrega|plazo|"
            r"deadline|fecha de lanzamiento|entrega)(?: (?:de|del|para|de la) [\w -]{2,50}?)?) "
            r"(?:es|termina|vence|acaba|está fijad[oa] para) (?:<date>|(?:el )?<day>)",
            r"(?:tengo|tenemos) que entregar (?P<thing>[\w -]{2,50}?) (?:antes del? )?<date>",
            r"(?:la|el|nuestr[oa]|mi) (?P<thing>[\w -]{2,50}?) (?:hay que entregarl[oa]|se entrega|"
            r"debe entregarse|tiene que estar (?:list[oa]|terminad[oa])|debe estar list[oa])(?: "
            r"para| antes del?)? (?:<date>)",
        ),
        topic="deadline:{thing}",
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:en|para) (?:este|nuestro|el) (?:proyecto|repositorio|repo|equipo|código)[\w "
            r"]{0,20},? (?:usamos|utilizamos|escribimos|seguimos) \w",
            r"(?:usamos|utilizamos|nuestro equipo usa|este proyecto usa|el proyecto usa|este "
            r"proyecto utiliza) (?!esto|eso|esta|este|demasiad|much|el |la |los |las |una? )\w",
            r"nuestr[oa] (?:convención|estilo de código|stack|backend|rama principal|reunión "
            r"diaria) (?:es|está (?:en|escrit[oa])|se llama) (?!caíd|rot|lent|mal)\w",
        ),
        about_user=False,
        general=True,
    ),
)

TABLE = Table(
    code="es",
    rules=_RULES,
    explicit=(
        r"(?:por favor,? )?(?:recuerda|recuerde|acuérdate de|acuérdese de|no olvides|no te olvides "
        r"de|ten en cuenta|tenga en cuenta|ten presente|anota|apunta|toma nota de)(?: siempre| "
        r"bien| para la próxima)? que (?!te|día|hora)",
        r"(?:por favor,? )?(?:recuerda|anota|apunta|memoriza)(?: esto| lo siguiente)? ?: ?",
        r"para (?:futuras referencias|la próxima vez|que lo sepas) ?[:,] ?",
    ),
    openers=r"ok|vale|oh|ah|y|pero|pues|bueno|por cierto|además|hola|buenos días|buenas(?: tardes| "
    r"noches)?|gracias|muchas gracias|sí|no,|para que lo sepas|para que sepas|que sepas que|debes "
    r"saber que|en general|ps|importante|nota|como sabes|porque|ya que|como|personalmente|en "
    r"realidad|perfecto",
    conjunctions="y|pero|porque|ya que|así que|aunque",
    starters=r"yo|me|mi|mis|nuestro|nuestra|soy|tengo|vivo|trabajo|prefiero|puedes|podrías|es|eso|"
    r"él|ella|ahora|gracias|así que",
    questions=r"puedes|podrías|puede|qué|que|cómo|cuál|cuáles|quién|dónde|cuándo|por qué|cuánto|"
    r"cuánta|debo|debería|tienes|hay|sabes|me recomiendas|me ayudas|verdad",
    doubts=r"si|quizás|quizá|tal vez|a lo mejor|probablemente|posiblemente|creo|supongo|pienso que|"
    r"antes|dice|dicen|dijo|dijeron|según|no estoy segur[oa]|todavía no|aún no|ojalá|me gustaría|"
    r"preferiría|sería|podría|no sé|a veces|parece|es broma|bromeo|en un sueño",
    conditions=r"si|imagina|imaginemos|supongamos|supón|finge|dice|dijo|quizás|quizá|tal vez|en la "
    r"(?:película|historia|novela)|en el (?:libro|cuento|juego)|frase|claro,? porque|antes|"
    r"genial,? me",
    passing=r"hoy|(?<!la )mañana|esta (?:noche|mañana|tarde|semana)|ahora mismo|en este momento|"
    r"por ahora|de momento|ayer|mañana por|en \d+ minutos|por el momento|anoche",
    deictic=r"tu|tus|esta|este(?! (?:proyecto|repositorio|repo|equipo))|esto|estos|estas|esa|ese|"
    r"eso|aquí|idea|propuesta|respuesta|versión|opción|(?:primer[oa]?|segund[oa]|tercer[oa]?|"
    r"últim[oa])",
    refusals=r"no (?:recuerdes|guardes|anotes|memorices|apuntes|lo (?:recuerdes|guardes|anotes))|"
    r"(?<!no )olvida (?:que|eso|esto|lo)|entre nosotros",
    tasks=r"(?:(?:por favor,?|puedes|podrías|ahora|ayúdame a) )*(?:traduce\w*|traducir|corrige\w*|"
    r"corregir|resume|resumir|reescribe\w*|reescribir|reformula\w*|imagina|finge|actúa|eres una?|"
    r"haz de|mejora|(?:escribe|escríbeme|redacta|crea|hazme) (?:una? )?(?:[\w-]+ ){0,3}(?:historia|"
    r"cuento|poema|correo|carta|texto|canción|diálogo|discurso|mensaje|frase|email|ensayo)|aquí "
    r"(?:está|tienes) (?:el|la|mi|un|una) (?:texto|correo|carta|borrador|historia|artículo)|cómo "
    r"se dice)",
    first_person=r"yo|me|mi|mis|mí|conmigo|soy|tengo|vivo|trabajo|prefiero|como|odio",
    typical=r"el|los|las|y|es|en|cuando|está|esto|eso|yo|muy|al|hemos|mañana|este|estaque|no",
    fragments=_FRAGMENTS,
)
