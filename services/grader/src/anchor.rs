//! Where a text announces an answer: "Answer:", "Die Antwort ist", "答案：", "B is correct".

use std::sync::LazyLock;

use ::regex::Regex;

/// How far before a place words are looked at that deny what follows, in bytes.
const DENIAL_REACH: usize = 64;

/// A word for "answer", then any mix of marks and small words that stand between it and the answer.
///
/// Word boundaries are those of ASCII: the engine then stays on its fast path in texts of every script.
static ANNOUNCED: LazyLock<Regex> = LazyLock::new(|| {
    const FILLERS: &str = concat!(
        r"(?:",
        r#"[\s:：=<>*_"'“”‘’„«»`$()\[\]{}（）【】「」\\–—\u{983}-]"#,
        r"|,\s*(?:then|therefore|thus|hence|so|clearly|of course)\s*,",
        r"|(?:is|was|would be|should be|must be|has to be|ought to be|needs to be|option|choice|letter|the|this|correct|best|right|likely|most|final",
        r"|here|probably|maybe|perhaps|possibly|definitely|certainly|surely|obviously|indeed|actually|simply|really|still|i think",
        r"|i believe|rather|therefore|thus|clearly|to this question|to the question|boxed|text|textbf|mathrm|mathbf",
        r"|ist|lautet|die|est|es|la|opción|adalah|jest|brzmi|är|er|on|este|corect|ni",
        r"|correcta|correcte|correta|corretta|exacta|bonne|juste|richtige|richtig|option|opzione|opção|letra|lettre|buchstabe)(?-u:\b)",
        r"|è|é|là|это|буква|вариант|هو|هي|الصحيحة|النهائية|صحیح|درست|نهایی|گزینه|היא|הוא|הנכונה|הסופית|है|คือ|ที่ถูกต้อง|ข้อ",
        r"|是|为|為|選項|选项|选择|选|は|이|은|는|：",
        r")",
    );
    compile(&format!(
        concat!(
            r"(?i)(?:(?:",
            r"(?-u:\b)(?:answer|ans\.?|antwort|lösung|réponse|reponse|respuesta|resposta|risposta|antwoord|svaret|svar|jawaban|cevap",
            r"|răspunsul|răspuns|vastaus|válasz|jibu)",
            r"|(?-u:\b)(?:correct|right|best|final)\s+(?:option|choice|letter)",
            r"|(?-u:\b)(?:choose|pick|select|go with|going with)",
            r#"|(?-u:\b)not\s+(?:option\s+)?[(\[{{*_"'“‘`$]{{0,4}}(?-i:[A-Z])[)\]}}*_"'’”`$]{{0,4}},?\s+but(?-u:\b)"#,
            r"|(?-u:\b)(?:it|this|that|which)\s+(?:must|should|has\s+to|would\s+have\s+to)\s+be",
            r"|(?-u:\b)(?:it|this|that|which)\s+is\s+(?:option|choice|letter)",
            r"|(?-u:\b)is\s+(?:wrong|incorrect|false),?\s+(?:so|hence|therefore|thus)",
            r"|odpowiedź(?:\s+to(?-u:\b))?|odpověď|đáp án|ответ|відповідь|απάντηση|उत्तर|উত্তর|إجابة|الجواب|پاسخ|جواب|תשובה|คำตอบ",
            r"|答案|答え|回答|解答|正解|答复|答|정답|답변|답",
            r"|正确选项|正確選項){fillers}+",
            r"|(?:选择|選擇|选|選){fillers}*)",
        ),
        fillers = FILLERS
    ))
});

/// A capital letter, then a claim that it is the answer.
static CLAIMED: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?-u:\b)([A-Z])[)\]}*"'.]{0,4}"#,
        r"\s+is\s+(?:therefore\s+|clearly\s+|thus\s+)?(?:(?:the\s+|most\s+likely\s+)?(?:correct|right|best)",
        r"(?P<named>\s+(?:answer|choice|option|response|one))?",
        r"|(?P<called>(?:the|my|our)\s+(?:final\s+)?(?:answer|choice)))(?-u:\b)",
    ))
});

/// Words by which working arrives at a capital letter: "which corresponds to option B", "leaving B as the correct answer", "only B
/// fits", "it's B, not A".
static ARRIVED_AT: LazyLock<Regex> = LazyLock::new(|| {
    const LETTER: &str = r#"[(\[{*_"'$]{0,4}([A-Z])(?-u:\b)[)\]}*_"'$]{0,4}"#;
    compile(&format!(
        concat!(
            r"(?-u:\b)(?:(?:corresponds\s+to|match(?:es)?|leaving|leaves)\s+(?:only\s+)?(?:option|choice|answer|letter)\s+{letter}",
            r"|(?:leaving|leaves|making|makes)\s+(?:only\s+)?(?:option\s+|choice\s+)?{letter}",
            r"\s+(?:as\s+)?(?:the|our)\s+(?:only\s+)?(?:correct|right|best|answer)",
            r"|[Oo]nly\s+(?:option\s+|choice\s+)?{letter}\s+(?:fits|works|remains|matches|is\s+left)",
            r"|(?:[Ii]t|[Tt]his|[Tt]hat)(?:['’]s|\s+is)\s+(?:option\s+)?{letter},?\s+(?:and\s+)?not\s+(?:option\s+)?[(\[*]{{0,3}}[A-Z])(?-u:\b)",
        ),
        letter = LETTER
    ))
});

/// Words that deny what follows them: "do not", "isn't the correct", "I don't think that", 不.
static DENIED_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?i)(?:(?:(?-u:\b)(?:not|never|cannot|neither|nor|nicht)|n['’]t)\s+",
        r"(?:(?:the|a|an|my|to|be|ever|correct|right|best|final|want|would|should|simply|just|think|believe|say|I|you|we",
        r"|that|true|option|choice|letter|answer|is)\s+){0,4}|(?:不|别|別|勿|不要|不能|不应|不應|不会|不會|不是)\s*)",
        r#"[(\[{*_"'“‘`$\s]*$"#,
    ))
});

/// Words that deny what stands before them: "is wrong", "isn't".
static DENIED_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?i)^[)\]}*_"'`]{0,4}(?:\s*\?\s*(?:no|nope|not|wrong|incorrect|hmm|wait)(?-u:\b)"#,
        r"|\s*[项項]?\s*(?:(?:では|じゃ)\s*(?:あり|な)|[가이은는]\s*(?:아니|아닙)|是?(?:不对|不對|不正确|不正確|错误|錯誤|错的|錯的))",
        r"|\s+(?:",
        r"(?:is|was|seems|looks|must\s+be|can\s+be)\s+(?:clearly\s+|definitely\s+|also\s+|therefore\s+|obviously\s+)?",
        r"(?:not|wrong|incorrect|false|never|ruled\s+out)",
        r"|isn['’]t|wasn['’]t|cannot|can\s+not|can['’]t|doesn['’]t)(?-u:\b))",
    ))
});

/// What joins one answer to another: "or", "and", a comma, a slash.
static JOINED: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?i)^[)\]}*_"'`’”]{0,4}(?:"#,
        r"\s*(?P<list>,\s*(?:or|and)\s|,\s*(?P<maybe>possibly|perhaps|maybe)\s|,|/|&|\||;|\+|->|=>|→|⇒|-|–|—|(?-u:\b)(?:to|through)\s|或者|或|和|と|または|、)\s*",
        r"|\.?\s+[(\[]?(?P<or>or|possibly|perhaps|maybe|oder|ou|o|или|або|eller|lub|hoặc|또는)\s+",
        r"|\s+(?P<and>and|as\s+well\s+as|along\s+with|together\s+with|und|et|y|e|и|och|i|và)\s+)",
        r#"[(\[*_"'“‘`{$\\]*(?:(?:option|choice|maybe|perhaps|possibly|either)\s+)?[(\[*_"'“‘`{$\\]*"#,
    ))
});

/// The end of what is joined: nothing else is said of it alone.
static ENDS: LazyLock<Regex> =
    LazyLock::new(|| compile(r#"^[)\]}*_"'`’”$]{0,4}\s*(?:$|[\n.!?;,/&|。]|(?:are|both|or|and)(?-u:\b))"#));

/// One thing is said of the answer that was joined.
static SINGULAR: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r#"(?i)^[)\]}*_"'`’”$]{0,4}\s+(?:is|was|has|does|can|cannot|isn['’]t|would|will|could|fits|makes|ist|est|es|è|é)(?-u:\b)"#,
    )
});

/// A letter before a claim that it shares with another one: "A or (", "A and ".
static SHARED: LazyLock<Regex> =
    LazyLock::new(|| compile(r#"(?-u:\b)[A-Z][)\]}*"']{0,4}(?:\s+(?:or|and|und|oder)\s+|\s*[/&]\s*)[(\[*"']{0,4}$"#));

/// What stands between two answers that stand side by side.
static BESIDE: LazyLock<Regex> = LazyLock::new(|| compile(r"^[)\]}*_]{0,4}[ \t]+[(\[{*_]{0,4}"));

/// A word that makes an announcement one of what is no answer.
static WRONG_BEFORE: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?i)(?-u:\b)(?:wrong|incorrect|false|worst|bad)[ \t]+$"));

/// Words before an announcement that make it what others say, or what is explained: "many people think the", "the student's",
/// "explanation of the".
static OF_OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    const OFTEN: &str = concat!(
        r"(?:\s+(?:might|may|could|would|will|do|often|usually|sometimes|commonly|frequently|incorrectly|mistakenly|wrongly",
        r"|initially|first|also|still|be|are|tempted|inclined|tend|to|easily))*",
        r"(?:\s+(?:think|thinks|believe|believes|say|says|argue|assume|guess|claim|suspect|suppose))?",
    );
    compile(&format!(
        concat!(
            r"(?i)(?-u:\b)(?:(?:(?:some|many|others|someone|somebody|a\s+student",
            r"|(?:(?:some|many|most|other|several)\s+)?(?:people|students|learners|readers|candidates|test[- ]?takers|beginners|respondents))",
            r"|(?:one|you)\s+(?:might|may|could)){often}(?:\s+that)?(?:\s+the)?(?:\s+(?:correct|right|best))?",
            r"|it\s+(?:might|may|could)\s+(?:seem|appear|look)(?:\s+(?:that|like|as\s+if))?(?:\s+the)?(?:\s+(?:correct|right|best))?",
            r"|I\s+(?:first|initially|originally)\s+(?:thought|assumed|believed)(?:\s+that)?(?:\s+the)?(?:\s+(?:correct|right|best))?",
            r"|(?:(?:student|pupil|candidate|friend|classmate)s?['’]s?|his|her|their|runner-up|second[- ]best|previous|initial|earlier",
            r"|original|first|common|popular|tempting)(?:\s+(?:first|initial))?",
            r"|(?:explanations?|reasons?|reasoning|justification|rationale|analysis)\s+(?:of|for|behind)(?:\s+(?:the|this|our|my))?",
            r"(?:\s+(?:correct|right|best|final))?)\s+(?:option\s+)?[(\[*_]*$",
        ),
        often = OFTEN
    ))
});

/// Words before a claim that only suppose it: "whether", "if".
static SUPPOSED: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?i)(?-u:\b)(?:(?:whether|if|unless)(?:\s+(?:the|option|choice|answer|letter|that))*",
        r"|if\s+(?:the|this)\s+question[^.!?\n]*|(?:for|in)\s+(?-i:[A-Z][a-z]+),(?:\s+(?:option|choice|answer))?)\s+[(\[*_]*$",
    ))
});

/// Words behind a claim that narrow it: "for Spain", "only if", "in terms of".
static NARROWED: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?i)^[)\]}*_"'`]{0,4}\s*,?\s*(?:for|if|only|when|in|at|under|as\s+(?:a|an|far|long|well)|to|with|about|regarding|but|although|though"#,
        r"|except|unless|while|that|on|from|of|per|provided|assuming|insofar|where|too|also|wherever|whenever)(?-u:\b)",
    ))
});

/// Of those, what narrows nothing: "to this question".
static HERE: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?i)^[)\]}*_"'`]{0,4}\s*,?\s*(?:(?:to|for|in|of|from)\s+(?:the|this|these|all)\s+(?:above\s+|given\s+|listed\s+)?"#,
        r"(?:question|case|problem|context|scenario|situation|options|choices|four|five|reasons?)(?-u:\b))",
    ))
});

/// Words that take back what was said before them, wherever they stand between it and a claim.
static TAKEN_BACK: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?i)(?-u:\b)(?:wait|hold\s+on|on\s+second\s+thought|(?:let\s+me|let['’]s|I(?:['’]ll|\s+will))\s+(?:re-?|double)[a-z]*",
        r"|reconsider(?:ing)?|(?:I\s+made\s+a|my)\s+mistake|(?:that|I)\s+(?:is|was)\s+(?:wrong|incorrect)|that['’]s\s+(?:wrong|incorrect)",
        r"|correction|apologi[a-z]*|sorry|oops|upon\s+(?:reflection|closer))(?-u:\b)",
    ))
});

/// Words right before a claim that set it against what was said before: "No,", "Actually,", "but".
static SET_AGAINST: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?i)(?:^|[.!?,;:\s—–-])(?:no|nope|actually|rather|instead|hmm|but|however|in\s+fact)(?-u:\b)[,.:…]*\s+",
        r"(?:(?:actually|in|fact|I|think|believe|option|choice|answer|letter|the|it|seems|that)[\s,]+){0,4}[(\[*_]*$",
    ))
});

/// Words with which a sentence begins that concludes.
static CONCLUDES: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?i)(?:^|[.!?:\n])[\s*_]*(?:so|therefore|thus|hence|consequently|accordingly|finally|overall|as\s+a\s+result|in\s+conclusion)",
        r"(?-u:\b)[^.!?\n]*$",
    ))
});

/// Another sentence.
static SENTENCE: LazyLock<Regex> = LazyLock::new(|| compile(r"[.!?。\n]\W*\w"));

/// A sentence that asks for an answer, and gives none: "Choose the correct option:".
static ASKS: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"(?i)(?:^|[.!?:\n])[\s*_#>]*(?:please\s+)?(?:choose|pick|select|which|what)(?-u:\b)[^.!?\n]*$")
});

/// What is said of several answers that are none: "are incorrect", "do not fit".
static DENIED_TOGETHER: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?i)^[)\]}*_"'`$]{0,4}\s+(?:(?:are|were)\s+(?:(?:all|both|clearly|also|each|therefore|either)\s+)*"#,
        r"(?:not|incorrect|wrong|false|ruled\s+out|eliminated|irrelevant|distractors)",
        r"|aren['’]t|do\s+not|don['’]t|cannot|can\s+not|can['’]t|can\s+be\s+(?:ruled\s+out|eliminated))(?-u:\b)",
    ))
});

/// A letter, and a tick behind it or its text.
static TICKED: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?m)(?:^|[/|,;])[\s(\[*_-]*([A-Z])(?:[)\].:*][^\n/|❌✗✘❎✅✔☑✓]*|[\s:–—-]*)[✅✔☑✓]"));

/// Marks that end a sequence of tokens, which some engines leave in the text.
static END_MARKS: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"(?:\s*(?:</s>|<\|(?:im_end|endoftext|eot_id|end_of_text|end)\|>|<eos>|<end_of_turn>))+\s*$")
});

/// What may stand before the option in a line that says nothing else.
static LEAD: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?i)^[\s*_>]*(?:(?:(?:so|hence|thus|therefore|then|consequently|finally|ok|okay|well)(?-u:\b)[,:]?\s*",
        r"|(?:it|this|that|which)(?:['’]s|\s+is)(?-u:\b)\s*(?:option|choice|letter)?(?-u:\b)\s*",
        r"|(?:(?:the|my|our)\s+)?(?:(?:final|correct)\s+)?(?:option|choice|selection|selected|pick|solution|result|correct|letter)(?-u:\b)",
        r"\s*(?:is(?-u:\b)|would\s+be(?-u:\b))?\s*[:：]?\s*",
        r"|(?:final|conclusion)\s*[:：]\s*",
        r"|=>\s*|->\s*|[⇒→✔✓✅☑]\u{fe0f}?\s*)+|1\.\s+)",
    ))
});

/// The places of announcements, in the order of the text: where each begins, and where what it announces does.
pub(crate) fn announced(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    ANNOUNCED.find_iter(text).map(|found| (found.start(), found.end()))
}

/// A claim that a capital letter is the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// Where the letter stands.
    pub(crate) start: usize,
    /// Where the claim ends.
    pub(crate) end: usize,
    /// It says "the answer" or "the choice", and not only "correct".
    pub(crate) names_answer: bool,
}

/// The claims that a capital letter is the answer, in the order of the text.
pub(crate) fn claimed(text: &str) -> Vec<Claim> {
    let mut claims: Vec<Claim> = CLAIMED
        .captures_iter(text)
        .chain(ARRIVED_AT.captures_iter(text))
        .filter_map(|found| {
            let letter = (1..found.len())
                .filter_map(|group| found.get(group))
                .find(|group| group.len() == 1)?;
            Some(Claim {
                start: letter.start(),
                end: found.get_match().end(),
                names_answer: found.name("named").or(found.name("called")).is_some(),
            })
        })
        .collect();
    claims.sort_by_key(|claim| claim.start);
    claims
}

impl Claim {
    /// It holds in one respect only: "for Spain", "only if".
    pub(crate) fn is_narrowed(&self, text: &str) -> bool {
        let rest = head(&text[self.end..]);
        NARROWED.is_match(rest) && !HERE.is_match(rest)
    }

    /// It is what others say, or only supposed.
    pub(crate) fn is_no_claim(&self, text: &str) -> bool {
        is_of_others(text, self.start) || SUPPOSED.is_match(tail(&text[..self.start]))
    }

    /// It is set against what was said up to a place: "No, B is correct".
    pub(crate) fn is_set_against(&self, text: &str, from: usize) -> bool {
        SET_AGAINST.is_match(tail(&text[from..self.start]))
    }

    /// It is the conclusion with which the text ends, in a sentence that begins behind a place.
    pub(crate) fn concludes(&self, text: &str, from: usize) -> bool {
        CONCLUDES.is_match(tail(&text[from..self.start])) && !SENTENCE.is_match(&text[self.end..])
    }
}

/// Whether the words before an announcement make it what others say, or what is explained: "many people think the answer is C".
pub(crate) fn is_of_others(text: &str, place: usize) -> bool {
    OF_OTHERS.is_match(tail(&text[..place]))
}

/// Where words end that take back what was said up to a place: "Wait", "let me double-check".
pub(crate) fn taken_back(text: &str, from: usize) -> Option<usize> {
    TAKEN_BACK.find(&text[from..]).map(|found| from + found.end())
}

/// Whether the sentence that ends at the place asks for an answer.
pub(crate) fn is_asked(text: &str, place: usize) -> bool {
    ASKS.is_match(tail(text[..place].trim_end()))
}

/// Whether what follows the place says of several answers that they are none.
pub(crate) fn are_denied(text: &str, place: usize) -> bool {
    DENIED_TOGETHER.is_match(head(&text[place..]))
}

/// The places of capital letters that have a tick.
pub(crate) fn ticked(text: &str) -> impl Iterator<Item = usize> + '_ {
    TICKED
        .captures_iter(text)
        .filter_map(|found| Some(found.get(1)?.start()))
}

/// The text without the marks that end a sequence of tokens.
pub(crate) fn without_end_marks(text: &str) -> &str {
    END_MARKS.find(text).map_or(text, |marks| &text[..marks.start()])
}

/// Whether the words before a place deny what stands there: "do not choose", in the same sentence.
pub(crate) fn is_denied_before(text: &str, place: usize) -> bool {
    DENIED_BEFORE.is_match(tail(&text[..place]))
}

/// Whether the words after a place deny what stands before it.
pub(crate) fn is_denied_after(text: &str, place: usize) -> bool {
    DENIED_AFTER.is_match(head(&text[place..]))
}

/// Whether a letter at the place shares what is said of it with a letter before it: "A or B is correct".
pub(crate) fn is_shared(text: &str, place: usize) -> bool {
    SHARED.is_match(tail(&text[..place]))
}

/// How an answer is joined to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    Or,
    And,
    List,
}

/// What joins another answer to what ends at the place: how, and where the other one begins.
pub(crate) fn joint(text: &str, place: usize) -> Option<(Joint, usize)> {
    let Some(found) = JOINED.captures(head(&text[place..])) else {
        return side_by_side(text, place);
    };
    let end = place + found.get_match().end();
    let joint = if found.name("or").is_some() || found.name("maybe").is_some() {
        Joint::Or
    } else if found.name("and").is_some() {
        Joint::And
    } else {
        Joint::List
    };
    Some((joint, end))
}

/// Two answers with nothing but spaces and brackets between: "A B", "(A) (B)", "red green". A small letter alone is a word.
fn side_by_side(text: &str, place: usize) -> Option<(Joint, usize)> {
    let end = place + BESIDE.find(head(&text[place..]))?.end();
    let mut letters = text[end..].chars();
    let first = letters.next().filter(|letter| letter.is_alphanumeric())?;
    let is_word = first.is_lowercase() && !letters.next().is_some_and(char::is_alphanumeric);
    (!is_word).then_some((Joint::List, end))
}

/// Whether a word before an announcement makes it one of what is no answer: "the wrong answer is".
pub(crate) fn is_wrong_before(text: &str, place: usize) -> bool {
    WRONG_BEFORE.is_match(tail(&text[..place]))
}

/// A line without the words by which it says that the option behind them is the answer: "It's", "So,", "Option:", "=>".
pub(crate) fn without_lead(line: &str) -> &str {
    let rest = LEAD.find(line).map_or(line, |lead| &line[lead.end()..]);
    rest.trim_end().strip_suffix(" -").unwrap_or(rest)
}

/// Whether an answer that ends at the place is one of several, by what follows.
pub(crate) fn is_joined(text: &str, place: usize, joint: Joint) -> bool {
    let rest = head(&text[place..]);
    match joint {
        Joint::Or => true,
        Joint::And => !SINGULAR.is_match(rest),
        Joint::List => ENDS.is_match(rest),
    }
}

/// The end of the text, and no more of it than words that deny need.
fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(DENIAL_REACH);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(DENIAL_REACH);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[expect(
    clippy::expect_used,
    reason = "the patterns above are constants, and every test of the family compiles them"
)]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}
