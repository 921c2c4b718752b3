"""Portuguese: what lasts, and what only looks like it."""

from __future__ import annotations

from memoryd.engine.sessions.statements.language import Rules, Table

_FRAGMENTS = {
    "very": r"(?:(?:muito|realmente|também|sempre|sobretudo|atualmente|agora|geralmente|bastante|"
    r"mesmo|gravemente|mais|há \w+ \w+) )*",
    "month": r"janeiro|fevereiro|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|"
    r"dezembro",
    "date": r"(?:(?:o |a |em |no )?(?:dia )?\d{1,2}º? de (?:<month>)\b|(?:dia )?\d{1,2}/\d{1,2}|"
    r"\d{4}-\d\d-\d\d|(?:fim de |em |final de )(?:<month>)\b)",
    "day": r"(?:segunda(?:-feira)?|terça(?:-feira)?|quarta(?:-feira)?|quinta(?:-feira)?|"
    r"sexta(?:-feira)?|sábado|domingo)",
    "end": r"(?=\s*(?:$|[^\w\s]|(?:e|mas|porque|ou|desde|em|de|da|do|na|no|com|há|então|para)\b))",
    "object": r"(?!(?:isso|isto|disso|disto|daquilo|esse|essa|este|esta|esses|essas|desse|dessa|"
    r"deste|desta|da (?:sua|tua)|do (?:seu|teu)|das suas|dos seus|sua|seu|tua|teu|a (?:primeira|"
    r"segunda|terceira|última|outra|versão|opção|ideia)|o (?:primeiro|segundo|terceiro|último|"
    r"outro)|como|quando|que|de como|de quando|de que|tudo|de tudo|de ti|de você|você|te|não "
    r"(?:dizer|responder)|assim|mais)\b)\w",
    "relation": r"(?:esposa|esposo|mulher|marido|parceir[oa]|companheir[oa]|noiv[oa]|namorad[oa]|"
    r"filh[oa]|mãe|pai|mamãe|papai|irmão|irmã|avó|avô|sobrinh[oa]|ti[oa]|cachorr[oa]|cão|cadela|"
    r"gat[oa]|cavalo|bebê|sogr[oa]|colega de quarto|melhor amig[oa]|entead[oa])",
    "my": r"(?:(?:o |a )?(?:meu|minha|nosso|nossa))",
    "job": r"(?:professora?|engenheir[oa]|desenvolvedora?|programadora?|médic[oa]|enfermeir[oa]|"
    r"advogad[oa]|arquitet[oa]|contadora?|contabilista|consultora?|diretora?|estudante|escritora?|"
    r"jornalista|tradutora?|fotógraf[oa]|artista|músic[oa]|cozinheir[oa]|padeir[oa]|eletricista|"
    r"encanador|mecânic[oa]|agricultora?|pilot[oa]|bombeir[oa]|dentista|veterinári[oa]|"
    r"farmacêutic[oa]|psicólog[oa]|cirurgiã[o]?|biólog[oa]|químic[oa]|pesquisadora?|investigadora?|"
    r"bibliotecári[oa]|empresári[oa]|aposentad[oa]|reformad[oa]|designer|técnic[oa]|secretári[oa]|"
    r"cabeleireir[oa]|funcionári[oa] públic[oa])",
    "trait": r"(?:vegan[oa]|vegetarian[oa]|diabétic[oa]|celíac[oa]|daltônic[oa]|canhot[oa]|"
    r"asmátic[oa]|casad[oa]|divorciad[oa]|solteir[oa]|viúv[oa])",
    "made": r"resultado|estilo|tom|título|texto|design|cor|nov[oa]|final|começo|código|abordagem|"
    r"exemplo|nome|ideia|proposta|forma|maneira|jeito|resposta|plano|logo|estrutura|solução|seu|"
    r"sua|teu|tua",
    "language": r"(?:português|inglês|francês|alemão|espanhol|italiano|árabe|russo|chinês|japonês)",
}

_NOT_NAMES = r"(?!(?:não|a|o|assim|como|atenção|sempre|ninguém|muito)\b)"

_RULES = (
    Rules(
        (
            rf"(?:eu )?(?:me chamo|chamo-me) {_NOT_NAMES}(?:<name>|<word>)<end>",
            rf"(?:o )?meu (?:nome|sobrenome|apelido)(?: completo)? é {_NOT_NAMES}(?:<name>|"
            rf"<word>)<end>",
            rf"(?:pode |podes |podem )?(?:me chamar|me chame|chama-me|chame-me|me chama) (?:de "
            rf")?{_NOT_NAMES}<name>",
        ),
        topic="user.name",
        confidence=0.95,
    ),
    Rules(
        (
            r"(?:o )?meu aniversário é (?:no )?<date>",
            r"(?:eu )?faço anos (?:em |no |a )?<date>",
            r"(?:eu )?nasci (?:<date>|em \d{4}|em <cap>)",
        ),
        topic="user.birthday",
        confidence=0.95,
    ),
    Rules((r"(?:eu )?tenho \d{1,3} anos(?! de)<end>",), topic="user.age", confidence=0.85),
    Rules(
        (
            r"(?:eu |nós )?(?:moro|vivo|moramos|vivemos|resido) <very>(?:em|no|na|nos|nas|perto "
            r"d[eoa]) (?!paz|um sonho|um mundo|esse|essa|este|medo|mundo da lua|passado|"
            r"constante)\w",
            r"(?:o )?(?:meu endereço|a minha morada|minha morada) é (?=[^?]{0,60}\d)\w",
            r"(?:eu )?(?:me mudei|mudei-me) para (?:o |a )?<cap>",
        ),
        topic="user.address",
        confidence=0.85,
    ),
    Rules((r"(?:eu )?sou (?:natural )?d(?:e|o|a) <cap>",), topic="user.origin"),
    Rules(
        (r"(?:o )?meu (?:e-?mail|email)(?: pessoal| de trabalho)? é <email>",),
        topic="user.email",
        confidence=0.95,
    ),
    Rules(
        (
            r"(?:o )?meu (?:número|telefone|celular|telemóvel|whatsapp)(?: de telefone)? é(?: o)? "
            r"<number>",
        ),
        topic="user.phone",
        confidence=0.95,
    ),
    Rules(
        (
            r"(?:eu )?trabalho <very>(?:para|na|no|numa|num|em) (?:uma? |a |o )?(?:pequen[oa] |"
            r"grande )?(?:<cap>|empresa|banco|escola|hospital|universidade|loja|restaurante|"
            r"fábrica|escritório|startup|agência|prefeitura|câmara|clínica|laboratório|ong|"
            r"farmácia|livraria|hotel|museu|padaria)\b",
        ),
        topic="user.employer",
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:eu )?trabalho <very>como (?!sempre|um louco|uma louca|nunca)\w",
            r"(?:eu )?sou <very>(?:uma? )?<job><end>",
            r"(?:eu )?estudo (?!isso|isto|muito|para|o |a )\w+[\w ]{0,40} (?:na|no|em) <cap>",
        ),
        topic="user.job",
        confidence=0.85,
    ),
    Rules(
        (
            r"<my> <relation> (?:se chama|chama-se) <word>",
            r"o nome d[oa] (?:meu|minha) <relation> é <word>",
            r"(?:eu )?(?:tenho|temos) (?:uma?|dois|duas|três|quatro|cinco|\d+) (?:filh[oa]s?|"
            r"crianças|irmãos|irmãs|irmão|irmã|cachorr[oa]s?|cães|gat[oa]s?|net[oa]s?)(?:<end>| "
            r"que se chama| chamad)",
            r"<my> <relation> (?:tem \d+ (?:anos|meses)|é (?:alérgic[oa]|vegan[oa]|vegetarian[oa]|"
            r"celíac[oa]|diabétic[oa])|usa cadeira de rodas|trabalha (?:na|no|como|para) |mora em "
            r")",
        ),
        confidence=0.85,
    ),
    Rules(
        (
            r"<my> (?P<thing>chefe|gerente|médic[oa]|dentista|advogad[oa]|contadora?|supervisora?|"
            r"diretora?|orientadora?) (?:é|se chama|chama-se) (?:a |o |senhora? |dra?\. "
            r")*(?-i:[A-ZÀ-Ý])[\w-]+<end>",
        ),
        topic="role:{thing}",
        about_user=None,
    ),
    Rules(
        (
            r"(?:eu )?sou <very>(?:uma? )?<trait><end>",
            r"(?:eu )?sou <very>(?:alérgic[oa]|intolerante) (?:a|à|ao|aos|às) (?!ti|isso|"
            r"segundas)\w",
            r"(?:eu )?tenho (?:alergia a|diabetes|asma|doença celíaca|epilepsia|enxaqueca|"
            r"hipertensão|intolerância a)\b",
            r"(?:eu )?(?:não|nunca) (?:como|bebo|fumo|consumo|tomo) (?!(?:nada|mais nada|isso|"
            r"agora|você|tu|eu|antes|esperava|outros|o|a|os|as|esse|essa|um|uma|meu|deveria|"
            r"sempre)\b)\w",
        ),
        confidence=0.9,
    ),
    Rules((r"(?:eu )?falo <very><language>", r"(?:a )?minha língua materna é \w"), confidence=0.85),
    Rules(
        (
            r"(?:eu )?prefiro <very>(?!\w+[aei]r[.! ]*$)(?P<rest><object>)",
            r"(?:eu )?(?:não )?(?:gosto|curto) <very>(?P<rest>(?:de|do|da|dos|das) (?!(?:outr[oa]|"
            r"tudo|ti|você|vocês|como|<made>)\b)\w)",
            r"(?:eu )?(?:odeio|detesto|adoro|amo|não suporto) (?P<rest><object>)",
        ),
        topic="preference:{thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (r"<my> (?P<thing>(?!parte|momento|cena)[\w-]+) (?:favorit[oa]|preferid[oa]) é \w",),
        topic="preference:favourite {thing}",
        kind="preference",
        general=True,
    ),
    Rules(
        (
            r"(?:por favor,? )?(?:responda|responde|responda-me|escreva|escreve|fale|fala) sempre "
            r"em <language>",
            r"(?:a partir de agora|de agora em diante|daqui em diante|daqui para a frente),? "
            r"(?:responda|responde|escreva|escreve|fale|fala)(?: sempre)? em <language>",
        ),
        topic="preference:answer language",
        kind="preference",
        confidence=0.9,
    ),
    Rules(
        (
            r"(?:a partir de agora|de agora em diante|daqui em diante|daqui para a frente),? "
            r"(?!veremos|vamos ver)\w",
            r"(?:por favor,? )?(?:use|usa|responda|responde|escreva|coloque|adicione|execute|"
            r"verifique|cite|evite|me chame) sempre \w",
            r"(?:por favor,? )?(?:nunca|jamais) (?:use|uses|apague|apagues|coloque|responda|"
            r"escreva|adicione|faça|me chame|envie|remova)\b",
            r"(?:por favor,? )?sempre (?:use|responda|escreva|coloque|adicione|execute|verifique|"
            r"cite) \w",
        ),
        kind="requirement",
        about_user=None,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:nós |já |finalmente )?(?:decidimos|combinamos|a equipe decidiu|a equipa decidiu|"
            r"resolvemos|eu decidi|decidi) (?:usar|utilizar|adotar|migrar|passar para|mudar para|"
            r"manter|não usar|adiar|lançar|publicar|que|substituir|hospedar|abandonar|contratar|"
            r"vender|comprar)\b",
            r"(?:escolhemos|optamos por|ficamos com(?= <cap>)) (?!o (?:primeiro|segundo)|a "
            r"(?:primeira|segunda)|isso|esse|fome|sono)\w",
            r"(?:foi decidido|ficou decidido|ficou combinado) (?:que|usar)\b",
        ),
        kind="decision",
        about_user=False,
        confidence=0.85,
        general=True,
    ),
    Rules(
        (
            r"(?:o|a|nosso|nossa|meu|minha) (?P<thing>(?:prazo(?: final| limite)?|data limite|data "
            r"de entrega|deadline|entrega|data final)(?: (?:de|do|da|para|para a|para o) [\w "
            r"-]{2,60}?)?) (?:é|termina|vence|acaba)(?: em| no| na| a)? (?:<date>|<day>)",
            r"(?:tenho|temos) (?:que|de) entregar (?P<thing>[\w -]{2,50}?) (?:até |no |em )?<date>",
            r"(?:o|a|nosso|nossa|meu|minha) (?P<thing>[\w -]{2,50}?) (?:deve ser entregue|tem de "
            r"estar pront[oa]|tem que estar pront[oa]|precisa estar pront[oa]|deve estar pront[oa]|"
            r"precisa ser entregue)(?: até| em| no| a| antes de)* (?:<date>)",
        ),
        topic="deadline:{thing}",
        about_user=False,
        confidence=0.85,
    ),
    Rules(
        (
            r"(?:neste|nesse|no nosso|no) (?:projeto|repositório|repo|time|código)[\w ]{0,20},? "
            r"(?:nós )?(?:usamos|utilizamos|escrevemos|seguimos) \w",
            r"(?:nós |a gente )?(?:usamos|utilizamos|usa|nossa equipe usa|este projeto usa|o "
            r"projeto usa) (?!isso|isto|essa|esse|demais|muit|o |a |os |as |uma? )\w",
            r"(?:a )?noss[oa] (?:convenção|estilo de código|stack|backend|branch principal|reunião "
            r"diária) (?:é|se chama|fica) (?!fora|quebrad|lent|ruim)\w",
        ),
        about_user=False,
        general=True,
    ),
)

TABLE = Table(
    code="pt",
    rules=_RULES,
    explicit=(
        r"(?:por favor,? )?(?:lembre-se|lembra-te|lembre|lembra|não esqueça|não se esqueça|não te "
        r"esqueças|não esqueças|tenha em mente|tem em mente|tem em conta|leve em conta|anote|anota|"
        r"guarde|guarda)(?: sempre| bem)? (?:de )?que ",
        r"(?:por favor,? )?(?:lembre-se|lembra-te|anote|anota|guarde|memorize)(?: isto| isso| o "
        r"seguinte| disto)? ?: ?",
        r"para (?:referência futura|a próxima vez|o futuro) ?[:,] ?",
    ),
    openers=r"ok|tá|oh|ah|e|mas|bom|então|aliás|a propósito|além disso|oi|olá|bom dia|boa (?:tarde|"
    r"noite)|obrigad[oa]|muito obrigad[oa]|sim|para sua informação|só para saber|saiba que|fica "
    r"sabendo que|em geral|ps|importante|nota|como sabe|porque|já que|como|pessoalmente|na verdade|"
    r"perfeito|valeu",
    conjunctions="e|mas|porque|já que|então|embora",
    starters=r"eu|me|meu|minha|nosso|nossa|sou|tenho|moro|trabalho|prefiro|pode|você|poderia|isso|"
    r"ele|ela|agora|obrigad[oa]",
    questions=r"pode|poderia|podes|que|o que|como|qual|quais|quem|onde|quando|por que|porquê|"
    r"quanto|quantos|devo|deveria|tem|sabe|você pode|me ajuda|certo|há",
    doubts=r"se (?!chama)\w+|talvez|provavelmente|possivelmente|acho|creio|suponho|penso que|antes|"
    r"antigamente|diz|dizem|disse|disseram|segundo|não tenho certeza|ainda não|tomara|gostaria|"
    r"preferiria|seria|poderia|não sei|às vezes|parece|brincadeira|brincando|gostava|já não",
    conditions=r"se (?!chama)\w+|imagine|imagina|suponha|suponhamos|finja|finge|faz de conta|disse|"
    r"diz|talvez|no (?:filme|livro|jogo)|na (?:história|música)|frase|claro,? porque|antigamente|"
    r"ótimo,? eu",
    passing=r"hoje|esta (?:noite|manhã|tarde|semana)|agora mesmo|neste momento|por enquanto|no "
    r"momento|ontem|amanhã|em \d+ minutos|hoje à noite",
    deictic=r"sua|seu|tua|teu|essa|esse|esta|este(?! (?:projeto|repositório|repo))|isso|isto|aqui|"
    r"ideia|proposta|resposta|versão|opção|(?:primeir[oa]|segund[oa](?!-)|terceir[oa]|últim[oa])",
    refusals=r"não (?:lembre|lembres|guarde|guardes|anote|anotes|memorize|salve|se lembre)|(?<!não "
    r")esque(?:ça|ce) (?:que|isso|o que)|(?:fica )?entre nós",
    tasks=r"(?:(?:por favor,?|pode|poderia|agora|me ajude a) )*(?:traduza|traduz|traduzir|corrija|"
    r"corrige|corrigir|resuma|resume|resumir|reescreva|reescreve|reformule|imagine|imagina|finja|"
    r"finge|aja como|você é uma?|és uma?|melhore|(?:escreva|escreve|crie|faça) (?:uma? )?(?:[\w-]+ "
    r"){0,3}(?:história|poema|e-?mail|carta|texto|música|canção|diálogo|discurso|mensagem|frase|"
    r"redação|conto)|aqui está (?:o|a|meu|minha|um|uma) (?:texto|email|carta|rascunho|história|"
    r"artigo)|como se diz)",
    first_person=r"eu|me|mim|meu|minha|meus|minhas|sou|tenho|moro|trabalho|prefiro|odeio",
    typical=r"o|na|gente|os|do|da|em|com|não|isso|você|quando|eu|é|meu|minha|uma|um|ao|amanhã|nós|"
    r"esse|essaesse|essa|e",
    fragments=_FRAGMENTS,
)
