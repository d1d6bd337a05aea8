//! Where a text announces an answer: "Answer:", "Die Antwort ist", "答案：", "B is correct".

use std::sync::LazyLock;

use ::regex::Regex;

/// A word for "answer", then any mix of marks and small words that stand between it and the answer.
///
/// Word boundaries are those of ASCII: the engine then stays on its fast path in texts of every script.
static ANNOUNCED: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?i)(?:",
        r"(?-u:\b)(?:answer|antwort|lösung|réponse|reponse|respuesta|resposta|risposta|antwoord|svaret|svar|jawaban|cevap)",
        r"|(?-u:\b)(?:correct|right|best|final)\s+(?:option|choice|letter)",
        r"|(?-u:\b)(?:choose|pick|select)",
        r"|odpowiedź|odpověď|đáp án|ответ|відповідь|απάντηση|उत्तर|الإجابة|الجواب|תשובה",
        r"|答案|答え|回答|解答|正解|정답|답",
        r")(?:",
        r#"[\s:：=>*_"'“”‘’„«»`$()\[\]{}（）【】「」\\–—-]"#,
        r"|(?:is|was|would be|should be|must be|option|choice|letter|the|this|correct|best|right|likely|most|final",
        r"|therefore|thus|clearly|to this question|to the question|boxed|text|textbf|mathrm|mathbf",
        r"|ist|lautet|die|est|es|la|opción|adalah|jest|är|er",
        r"|correcta|correcte|correta|corretta|exacta|bonne|juste|richtige|richtig|option|opzione|opção|letra|lettre|buchstabe)(?-u:\b)",
        r"|è|é|là|это|буква|вариант|هو|هي|है",
        r"|是|为|為|選項|选项|选择|选|は|이|은|는|：",
        r")+",
    ))
});

/// A capital letter, then a claim that it is the answer.
static CLAIMED: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?-u:\b)([A-Z])[)\]}*"'.]{0,4}"#,
        r"\s+is\s+(?:therefore\s+|clearly\s+|thus\s+)?(?:the\s+|most\s+likely\s+)?(?:correct|right|best)(?-u:\b)",
    ))
});

/// The places right after announcements, in the order of the text.
pub(crate) fn announced(text: &str) -> impl Iterator<Item = usize> + '_ {
    ANNOUNCED.find_iter(text).map(|found| found.end())
}

/// The places of capital letters that are claimed to be the answer, in the order of the text.
pub(crate) fn claimed(text: &str) -> impl Iterator<Item = usize> + '_ {
    CLAIMED.find_iter(text).map(|found| found.start())
}

#[expect(
    clippy::expect_used,
    reason = "the patterns above are constants, and every test of the family compiles them"
)]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}
