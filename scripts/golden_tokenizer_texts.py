"""The texts of golden-tokenizers.py: those on which vocabularies are trained, and those that are encoded."""

import random

# Trained on, together with English sentences. Each script has enough words for pieces of several letters.
MULTILINGUAL = """\
Le garçon naïf a mangé un gâteau à la crème près de l'école où son frère étudie le français depuis l'été.
Der größte Bär läuft über die Straße und die Mädchen hören Musik, während draußen die Vögel singen.
El niño pequeño comió una piña mañana por la mañana y después cantó una canción en español.
Ľubomír a Žofia pijú čaj, šťastný kôň beží. Łódź, żółw, święto i źródło są po polsku.
Η γλώσσα των ανθρώπων είναι το σπίτι της σκέψης, και ο φίλος λέει πάντα την αλήθεια στους άλλους ανθρώπους.
Все люди рождаются свободными и равными в своём достоинстве и правах. Быстрая лиса прыгает через ленивую собаку.
يولد جميع الناس أحراراً متساوين في الكرامة والحقوق، والكتاب على الطاولة في البيت الكبير.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. הספר על השולחן בבית הגדול.
सभी मनुष्य जन्म से स्वतन्त्र हैं और गरिमा तथा अधिकार में समान हैं। हिन्दी भाषा सुन्दर है।
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ภาษาไทยสวยงาม
人人生而自由,在尊严和权利上一律平等。我们在学校学习中文,老师说中文很有意思。
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナも使う。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 한국어를 배우고 있습니다.
I love it 😀😀 so much ❤️ 👍 great 🎉 🚀 😂 😭 👩‍👩‍👧 🇩🇪 family.
"""

SENTENCES = [
    "it 's a charming and often affecting journey .",
    "unflinchingly bleak and desperate",
    "the film does n't really care about the script , and that 's what makes it so funny .",
    "Shares of Acme Corp. (ACM.N) fell 3.5% to $1,234.50 on Tuesday, its biggest one-day loss since 1998.",
    'Reuters - Oil prices soared to an all-time record; "We\'ll see," the minister said, "they\'re not worried."',
    "I'd've thought he'll say we're DON'T, isn't it? I'M YOU'VE it'S",
    "The quick brown fox, unaffable, jumps over the lazy dogs.",
    "Le garçon naïf a mangé un gâteau près de l'école.",
    "Die Straße ist größer als ÜBERALL, ẞ und Äpfel.",
    "Η γλώσσα ΣΟΦΟΣ σοφός, ΐ ΰ ᾳ",
    "Все люди рождаются свободными, Ёжик и ЙОД.",
    "يولد جميع الناس أحراراً، ﷺ و ١٢٣ لا",
    "כל בני האדם שָׁלוֹם נולדו",
    "सभी मनुष्य हिन्दी क्षत्रिय १२३ है।",
    "มนุษย์ทั้งหลายเกิดมา ๑๒ กำลัง",
    "人人生而自由,在尊严和权利上一律平等。㐀𠀀豈",
    "すべての人間は、カタカナ ガギグ ｶﾞｷﾞﾊﾟ がぱ です。",
    "모든 인간은 태어날 때부터 자유 가각힣",
    "ᄒ\u1161\u11ab\u1100\u1173\u11af ㅎㅏㄴ",
]

BLANKS = [
    "",
    " ",
    "  ",
    "\n",
    "\t",
    "\u3000",
    "\u200b",
    "a",
    " a",
    "a ",
    "  a  b   c    ",
    "a\tb\nc\rd\r\ne\x0bf\x0cg",
    "line one\r\n\r\n\r\nline two\n\n  line three \n",
    "a\u00a0b\u3000c\u2028d\u2029e\u0085f\u1680g\u202fh\u205fi",
    "zero\u200bwidth\u200cjoin\u200der\u2060x\ufeffy\u00adz",
    "    indented\n\t\tcode {\n        return 1;\n    }   ",
    "\u00a0\u00a0nbsp\u00a0",
    "x \u3000 y",
    "▁a ▁ b▁▁c",
    "\n a\n",
    " \n\n \n",
    "a \u0301b",
    "\u2003\u2003wide",
]

ODD = [
    "a" * 300,
    "é" * 60,
    "unbelievable" * 5,
    "ab" * 30 + " c",
    "中" * 20,
    "😀" * 6,
    "." * 40,
    "!?" * 10,
    "0123456789" * 2,
    "e\u0301a\u0300o\u0316\u0301\u0345 o\u0301\u0316 \u0301x",
    "q\u0307\u0323 q\u0323\u0307 s\u0323\u0307 ṩ ṡ\u0323",
    "\u0301\u0316\u0345",
    "Å Å A\u030a ﬁ ﬃ ŉ ǆ ½ ² ① Ⅷ ℌ ™ … ｆｕｌｌ １２ ㎏ ㍿ ﹏",
    "ﬁ\u0301 e\u20dd ①\u0301 ²\u0308 ½\u0338x",
    "\u1e9b\u0323 \u0344 \u0958 \u2126 \u212a",
    "İstanbul ıIiİ DŽ ǅ ΑΣ. ß SS ſ",
    "ｶﾞ ﾊﾟ ﾊ\u3099 カ\u3099 ハ\u309a \uffe3 ￥ ﾡ",
    "क\u093c \u0928\u093c द\u094d\u0927 \u09c7\u09be \u0b47\u0b3e",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷🇪 ❤️ ❤ 1️⃣ 🏴\U000e0067\U000e0062\U000e007f 🤷‍♀️",
    "a🏽 e\u200d\u0301 \u0600\u0661 \u0e33\u0e01 \u0d4e\u0d15",
    "x\x00y\x01z\x1f\x7f\x80\x9f",
    "\x01\x02ab \x03c",
    "\ufeffbom \x07",
    "a\r\n\u0301b\x1fc",
    "\x00ab",
    "bad\ufffdchar \ufffe\uffff \ue000 \U000f0000 \u0378 \U0001f9ff\U00010ffff \u2065",
    "_under_score_ __init__ snake_case camelCase",
    "http://www.example.com/a?b=c&d=%20e#f mail@host.org @user #tag",
    "1,234.56 3.14e-10 0x1F 1/2 12:30 2024-05-06 ٣٤ ४५ ① ² ½ 一二",
    "price: $5.00€£¥ 100% ±5° §3 ¶ † ‡ • ※ № ℃",
    "-- – — ― ‐ \u2011 « » „ “ ” ‘ ’ ` ´ ¨ ^ ~ | \\ / < > = + * & @ #",
    "``quoted'' and ''more`` \"x\" 'y'",
    "don't we'll WE'LL 'tis 'S 's' rock'n'roll \u2019s",
    "don\u2019t \u017ftop 'ſ K's Ω's",
    "<0x41><0xE4>▁x <0xZZ>",
    "##ing un ##s a##b",
    "</w> a</w>b",
    "ĠhelloĊ Ã© âĢĻ",
    "\u0130\u0307 i\u0307 J\u030c",
    "a\u0338=\u0338 ≠ <\u0338 ≮ >\u0338 `\u1fef",
    "\U0001d15e \U0001d15f\U0001d165 \U0001d400\U0001d7d8 \U0002f800",
    "x\U0001d16d\U0001d165 \u302a\u302e\u1b44",
    "中a文1字。「あ」、ー々〆 ｡｢ﾞ",
    "ЀёЁ̈й и\u0306 \u0476 Ѷ",
    "\u0675 \u0622 ا\u0653 \ufefb \ufb1d \ufb2a",
]

# `{mask}` and the like stand for the tokenizer's own tokens.
SPECIAL = [
    "{bos}{eos}{mask}{pad}{unk}",
    "a {mask} b",
    "a{mask}b",
    "  {mask}  ",
    "{mask}",
    "a \u3000{mask} \u00a0b",
    "say {mask}. {mask}!",
    "{eos} x {bos}",
    "{eos}{eos}x",
    "a {pad}b",
    "{mask_other_case} {bos_other_case}",
    "{bos",
    "{mask}{mask} {mask}",
    "unk {unk} unk",
    "x{eos}\n",
]

# Short texts for tokenizers of single letters, in which each character shows.
SHORT = [
    "",
    " ",
    "a",
    " a  b ",
    "Hello, World!",
    "it's 'S don't",
    "a\tb\r\nc\n",
    "\u00a0a\u3000b\u2028c\u0085",
    "a\u200bb\ufeffc\u00add\u200de",
    "éÉ e\u0301 ñ",
    "o\u0316\u0301\u0345o\u0301\u0316",
    "\u0301a",
    "q\u0307\u0323ṩ",
    "ﬁ½①Ⅷ㎏",
    "ｶﾞﾊﾟガパ",
    "가ᄒ\u1161\u11ab",
    "İıſßẞ",
    "ΑΣ ΣΟΣ",
    "中a文1",
    "𠀀豈",
    "Ελ αβ",
    "Все Йй",
    "שָׁל",
    "أحر ١٢",
    "हिन्दी",
    "กำ ๑",
    "😀a👍🏽",
    "👩‍👧",
    "❤️1️⃣",
    "\x00\x01\x7f\ufffd",
    "\ue000\u0378\uffff",
    "a_b-c.d,e",
    "...!!",
    "a--b",
    "--a-- -",
    "1a22b333",
    "x²٣½Ⅷ",
    "€5 +=<>|~`^$",
    "¿qué?",
    "«a» “b”",
    "  \n  ",
    "ab abab",
    "``a''",
    "A.B",
    "x" * 30,
    "aXbXXcX",
    "a<m>b <m> c",
    "\u1e9b\u0323",
    "Å Å\u0338",
    "\U0001d15e\U0001d165",
    "x\U0001d16d\U0001d165",
    "▁a▁ ▁b",
    "ǅ ΐ ŉ ﬃ",
    "a\u0085\u0085b",
]

# Bytes that are not UTF-8 throughout.
INVALID = [
    b"a\xffb",
    b"\xc3",
    b"caf\xc3\xa9 \xe2\x82 x",
    b"\xed\xa0\x80\xed\xb0\x80",
    b"\xc0\x80\xc1\xbf",
    b"\xf8\x88\x80\x80\x80",
    b"the \xf0\x9f\x98 quick",
    b"\x80\x80 \xbf",
    b"\xf4\x90\x80\x80a\xf0\x82\x82\xac",
    b"fran\xe7ais",
    b"a \xff\xfe b\xff",
    b"\xef\xbf\xbd\xef\xbf",
    b"e\xcc\x81\xcc",
]


def random_texts(count, seed):
    """Yields random mixtures of the scripts, marks, blanks and emoji."""
    numbers = random.Random(seed)
    scripts = [
        range(0x20, 0x7F),
        range(0xA0, 0x250),
        range(0x300, 0x370),
        range(0x370, 0x530),
        range(0x5D0, 0x700),
        range(0x900, 0x980),
        range(0xE00, 0xE60),
        range(0x1100, 0x1200),
        range(0x1E00, 0x2070),
        range(0x3040, 0x3100),
        range(0x4E00, 0x4E40),
        range(0xAC00, 0xAC40),
        range(0xFB00, 0xFB50),
        range(0xFE70, 0xFF00),
        range(0xFF00, 0xFFF0),
        range(0x1F600, 0x1F640),
    ]
    words = (MULTILINGUAL + " ".join(SENTENCES)).split()
    often = [" ", "  ", "\n", "'s", ".", ", ", "\u0301", "\u200d", "\ufe0f", "_", "1", "\u00a0"]
    for _ in range(count):
        parts = []
        for _ in range(numbers.randint(2, 7)):
            kind = numbers.random()
            if kind < 0.45:
                parts.append(numbers.choice(words))
            elif kind < 0.75:
                parts.append(numbers.choice(often))
            else:
                parts.append("".join(map(chr, numbers.choices(numbers.choice(scripts), k=numbers.randint(1, 4)))))
        yield "".join(parts)
