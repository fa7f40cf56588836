#!/usr/bin/env python3
"""Writes the sample of the surnames program, examples/surnames/sample/<Language>.txt; no arguments, no packages.

A name is a beginning, at times a middle, and an ending, each drawn from syllables that are common in names of the
language. As in the real data, the files differ in size, some names occur several times, one name occurs in two
languages, one line ends with a blank, and a few names hold an accent, an apostrophe or a blank. The draws use
random.random() only,
which gives the same numbers in every version of Python.
"""

import os
import random

from sample import EXAMPLES, write

SEED = 18
OUT = os.path.join(EXAMPLES, "surnames", "sample")
MIDDLE = 0.4  # the share of names with a middle, in languages that have middles
REPEATED = {"Arabic": 0.4}  # the share of lines that repeat an earlier name of the file, by language
REPEATED_ELSEWHERE = 0.06  # the same share in all other languages
SHARED = ("Chinese", "Korean")  # the last line of the second file repeats the first line of the first file
WITH_BLANK = "Korean"  # the first line of this file ends with a blank

# The number of lines of each language, and the beginnings (_ is a blank), middles and endings of its names.
LANGUAGES = {
    "Arabic": (76, "Ab As Ba Da Gha Ha Kha Ma Na Sa Sha Za", "bdi li mi ra ri ssa",
               "dad far had him kir lid moun nem rim san shi zar"),
    "Chinese": (52, "B Ch D F G H J L Q Sh X Zh", "", "ai ang ao ei eng ian iao ing ou ua uan ui un"),
    "Czech": (58, "Bla Cer Dvo Har Hla Jel Kre Ko Mal Ne Sko Vesel Zem", "de li ma ne ra",
              "cek ček cky dil hal jka nec novak vák sil sek tka"),
    "Dutch": (54, "Bak Brou De_Wi Dek Haan Kui Lin Meij Roo Schou Van_der_Ho Ver Wil", "de ke le ner",
              "berg bos burg dijk horst huis kamp man mans sen steen veld"),
    "English": (78, "Ash Black Brad Dal Ed Ham Har Kirk Lang Mar Nor Pem Ren Stan Thorn Whit", "bur ing ming wor",
                "by combe den field ford ham ley low more stead ton well wick worth"),
    "French": (56, "Beau Bous Char D'Au Du Fon Ga La Le Mar Mon Per Rou Vi", "bel chi lan ri vi",
               "bert chaud court det gnon let lier mont neau rand rier chère teau"),
    "German": (66, "Acker Alt Berg Brück Eich Gross Hof Kel Lang Müh Rei Schä Stein Wag", "be en ler mei ner",
               "bach bauer berg er fer haus hardt ing ke mann meier ner stein"),
    "Greek": (50, "Al An Chris Dimi Geor Ka Kon Kyri Ma Pa Sta The Vas", "ka li ni ri stan to",
              "akis akos andis atos elis idis opoulos oulis ouros as"),
    "Irish": (48, "Bre Ca Do Fi Gi Ki Mu O'Ba O'Do O'Gra O'Ma O'Shee", "la li na ra",
              "dain dy gan llan ley nane nian ney nnell nnon rigan"),
    "Italian": (70, "Al Bar Bel Ca Co D'A Fer Gia Lo Ma Pa Ri San Tor Vi", "bel chi lan li man ra ti",
                "bani gatti relli letti ghi gnolo rini sino rioni tetti nucci rone rò"),
    "Japanese": (72, "A Fu Ha Ina Ka Ki Ko Ma Mi Na Shi Ta To U Ya", "ka ki mo no ra ru shi ta",
                 "da gawa guchi hara kawa ki mori moto mura naka saki shita suka yama zaki"),
    "Korean": (42, "B Ch D G H J K M N P R S Y", "", "ae ang eo eon eong i im in o on ong oo um yun"),
    "Polish": (46, "Bara Cza Dob Grz Jab Kow Krze Maj Nowa Przy Sob Wal Wit Zie", "be li ma ni",
               "czak czyk iewicz lak nik ński kowski łek nowski rski szewski wicz"),
    "Portuguese": (40, "Al Bar Cor Cou Fer Fon Ma Mou Pe Ri Sil Tei Vi", "bei dei le mei ra",
                   "gães lão naria redo beira deiro relho nes lilha ninha tinho mões rosa"),
    "Russian": (80, "Abra Bel Cher Dol Gor Iva Kra Leb Mor Ovch Pan Rus Sta Tol Vor Yak Zhi", "be chi ko li na shi vo",
                "chenko enkov evsky in inov kin likov ov ovich ovsky renko shin sky tov yanov"),
    "Scottish": (44, "Bal Cal Dun Fer Glen Kin Mac Mac Mac Mc Mc Mc", "",
                 "bain craig donell dougal fadyen gowan gregor innes kay kenna lachlan leish nab nair pherson tosh"),
    "Spanish": (60, "Al Bar Ca Cas De_la_Ro Fer Gar Gon Her Mar Men Or Ra Sal Va Za", "be ca li man ra ti",
                "bada raga gales rano nejo dez nerez guero tinez lilla ñez llón rosa guez lura"),
    "Vietnamese": (42, "B D H Kh L Ng Ph T Th Tr V", "", "ac ai am an ang anh ao i iem ieu inh o oan oang uong uy uyen"),
}


def pick(rng, items):
    return items[int(rng.random() * len(items))]


def draw_name(rng, begin, middle, end):
    name = pick(rng, begin.split())
    if middle and rng.random() < MIDDLE:
        name += pick(rng, middle.split())
    return (name + pick(rng, end.split())).replace("_", " ")


def draw_names(rng, language, taken):
    """Returns the lines of a language, without names in `taken`."""
    count, *syllables = LANGUAGES[language]
    repeated = REPEATED.get(language, REPEATED_ELSEWHERE)
    names = []
    while len(names) < count:
        if names and rng.random() < repeated:
            names.append(pick(rng, names))
            continue
        name = draw_name(rng, *syllables)
        if name not in names and name not in taken:
            names.append(name)
    return names


def main():
    rng = random.Random(SEED)
    files, taken = {}, set()
    for language in sorted(LANGUAGES):
        files[language] = draw_names(rng, language, taken)
        taken.update(files[language])
    source, target = SHARED
    files[target][-1] = files[source][0]
    files[WITH_BLANK][0] += " "
    for language, names in files.items():
        write(OUT, language + ".txt", names, encoding="utf-8")


if __name__ == "__main__":
    main()
