//! One spelling for the characters that mean the same in mathematics: what LaTeX and ASCII have a form for is written so.

/// The text with typographic marks in their ASCII or LaTeX form, without marks that have no shape.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            ' '..='~' => plain.push(letter),
            '\u{ff01}'..='\u{ff5e}' => {
                plain.push(char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter));
            }
            _ => match spelled(letter) {
                Some(spelling) => plain.push_str(spelling),
                None if is_shapeless(letter) => {}
                None => match digit(letter) {
                    Some(digit) => plain.push(digit),
                    None => plain.push(letter),
                },
            },
        }
    }
    plain
}

/// Control characters and marks that steer direction or joining.
fn is_shapeless(letter: char) -> bool {
    (letter.is_control() && !letter.is_ascii_whitespace())
        || matches!(
            letter,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
                | '\u{fe00}'..='\u{fe0f}'
        )
}

/// Decimal digits of scripts that write them left to right by value.
fn digit(letter: char) -> Option<char> {
    const ZEROS: [u32; 5] = [0x660, 0x6f0, 0x966, 0x9e6, 0xe50];
    ZEROS.iter().find_map(|&zero| {
        let value = u32::from(letter).checked_sub(zero).filter(|&value| value < 10)?;
        char::from_digit(value, 10)
    })
}

const fn spelled(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\u{2212}' | '\u{2010}'..='\u{2015}' | '\u{fe63}' => "-",
        '×' | '·' | '⋅' | '∙' | '✕' | '∗' => r"\cdot ",
        '÷' => r"\div ",
        '∕' | '⁄' => "/",
        '±' => r"\pm ",
        '∓' => r"\mp ",
        '√' => r"\sqrt ",
        '∛' => r"\sqrt[3] ",
        'π' | '𝜋' => r"\pi ",
        '∞' => r"\infty ",
        '°' | 'º' | '˚' => r"^\circ ",
        '≤' | '⩽' => r"\le ",
        '≥' | '⩾' => r"\ge ",
        '≠' => r"\ne ",
        '≈' | '≃' => r"\approx ",
        '∈' => r"\in ",
        '∪' => r"\cup ",
        'ℝ' => r"\mathbb{R} ",
        '∅' | '⌀' => r"\emptyset ",
        '⟨' | '〈' => r"\langle ",
        '⟩' | '〉' => r"\rangle ",
        '⌊' => r"\lfloor ",
        '⌋' => r"\rfloor ",
        '⌈' => r"\lceil ",
        '⌉' => r"\rceil ",
        '⁰' => "^{0}",
        '¹' => "^{1}",
        '²' => "^{2}",
        '³' => "^{3}",
        '⁴' => "^{4}",
        '⁵' => "^{5}",
        '⁶' => "^{6}",
        '⁷' => "^{7}",
        '⁸' => "^{8}",
        '⁹' => "^{9}",
        '½' => r"\frac{1}{2}",
        '⅓' => r"\frac{1}{3}",
        '⅔' => r"\frac{2}{3}",
        '¼' => r"\frac{1}{4}",
        '¾' => r"\frac{3}{4}",
        '⅕' => r"\frac{1}{5}",
        '⅙' => r"\frac{1}{6}",
        '⅛' => r"\frac{1}{8}",
        '⅜' => r"\frac{3}{8}",
        '⅝' => r"\frac{5}{8}",
        '⅞' => r"\frac{7}{8}",
        'α' => r"\alpha ",
        'β' => r"\beta ",
        'γ' => r"\gamma ",
        'δ' => r"\delta ",
        'ε' => r"\varepsilon ",
        'θ' => r"\theta ",
        'λ' => r"\lambda ",
        'μ' | 'µ' => r"\mu ",
        'σ' => r"\sigma ",
        'φ' => r"\phi ",
        'ω' => r"\omega ",
        '，' | '、' | '،' => ",",
        '。' | '．' => ".",
        '；' => ";",
        '：' => ":",
        '（' => "(",
        '）' => ")",
        '“' | '”' | '„' | '«' | '»' => "\"",
        '’' | '‘' | '′' => "'",
        '\t'
        | '\n'
        | '\r'
        | '\u{b}'
        | '\u{c}'
        | '\u{a0}'
        | '\u{2000}'..='\u{200a}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{3000}' => " ",
        '…' => r"\ldots ",
        _ => return None,
    })
}
