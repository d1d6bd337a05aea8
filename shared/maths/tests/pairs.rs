//! A table of answers that are equal and answers that are not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use tidemill_maths::{Answer, Steps, Verdict, compare, equal};

/// Pairs that are equal.
const EQUAL: &[(&str, &str)] = &[
    // Whole numbers and decimals.
    ("5", "5"),
    ("5", "5.0"),
    ("5", "+5"),
    ("0", "-0"),
    ("-3", "\u{2212}3"),
    ("0.5", ".5"),
    ("0.1", "0.100"),
    ("12", "012"),
    ("5", "5."),
    ("٤٢", "42"),
    ("１２", "12"),
    // Thousands.
    ("9500", "9,500"),
    ("9500", "9{,}500"),
    ("9500", r"9,\!500"),
    ("1000000", "1,000,000"),
    ("10000", r"10\,000"),
    ("1234567", "1 234 567"),
    ("9500", "9'500"),
    ("$9{,}500", "9500"),
    ("8,000", "8000"),
    // Fractions.
    (r"\frac{1}{2}", "0.5"),
    (r"\frac{1}{2}", "1/2"),
    (r"\frac12", r"\dfrac{1}{2}"),
    (r"\frac1{72}", "1/72"),
    (r"\tfrac 34", "0.75"),
    (r"\frac{2}{4}", "1/2"),
    (r"-\frac{1}{2}", r"\frac{-1}{2}"),
    (r"-\frac{1}{2}", r"\frac{1}{-2}"),
    ("1/2", "½"),
    (r"2\frac{1}{2}", "5/2"),
    ("2 1/2", "2.5"),
    ("2½", "2.5"),
    (r"-2\frac{1}{2}", "-2.5"),
    (r"\frac{3}{\frac{1}{2}}", "6"),
    (r"0.\overline{3}", "1/3"),
    (r"0.1\overline{6}", r"\frac{1}{6}"),
    (r"0.\overline{142857}", "1/7"),
    ("0.3", "3/10"),
    (r"\frac{1,000}{3}", "1000/3"),
    // Percent, degrees, money, units.
    (r"50\%", "50"),
    ("50%", "0.5"),
    (r"50\%", r"\frac{1}{2}"),
    ("50%", "50 percent"),
    ("90", r"90^\circ"),
    ("90^{\\circ}", "90°"),
    ("90 degrees", "90"),
    (r"90^\circ", r"\frac{\pi}{2}"),
    (r"\$5", "5"),
    ("$29.00", "29"),
    ("-$5", "-5"),
    ("$5.00", "5 dollars"),
    (r"5\text{ cm}", "5"),
    (r"5 \mathrm{~cm}", "5"),
    ("5 cm", "0.05 m"),
    (r"3\text{ cm}^2", "3"),
    ("100 cents", "$1"),
    ("2 hours", "120 minutes"),
    (r"60\text{ miles per hour}", "60 mph"),
    ("72 clips", "72"),
    (r"5\text{ m}", "5"),
    (r"5 \mathrm{m}", "5 m"),
    (r"5 \mathrm{m}", "500 cm"),
    ("5 m", "500 cm"),
    ("72 clips, altogether.", "72"),
    ("3 square feet", "3 ft^2"),
    ("60 mph", "60 miles per hour"),
    ("60 km/h", "60 kph"),
    ("30 mpg", "30 miles per gallon"),
    ("1 gallon", "4 quarts"),
    ("5 kHz", "5000 Hz"),
    ("1 hectare", "10000 square meters"),
    (r"9.8 \text{ m/s}^2", "9.8 meters per second squared"),
    (r"9.8\,\mathrm{m}\cdot\mathrm{s}^{-2}", r"9.8\text{ m/s}^2"),
    ("72 clips", "72 clips altogether"),
    ("12 ways", "12 different ways"),
    ("5 cm", "5 cm long"),
    ("5 apples", "5 apple"),
    (r"20^\circ\text{C}", "20"),
    (r"20^{\circ}\mathrm{C}", "20°C"),
    ("20 degrees Celsius", r"20^\circ C"),
    (r"20^\circ\text{C}", r"20^\circ"),
    (r"3\text{ h}", "180 minutes"),
    (r"12\pi\text{ m}", r"12\pi"),
    (r"6\text{ N}", "6 newtons"),
    // Scientific notation.
    ("1.5e3", "1500"),
    (r"1.5 \times 10^3", "1500"),
    (r"1.5 \cdot 10^{3}", "1,500"),
    (r"3 \times 10^{-4}", "0.0003"),
    ("1.5×10³", "1500"),
    ("6.02E23", r"6.02\times10^{23}"),
    // Roots.
    (r"\sqrt{4}", "2"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"\sqrt2", r"\sqrt{2}"),
    ("sqrt(2)", "√2"),
    (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"),
    (r"\sqrt{2}\sqrt{3}", r"\sqrt{6}"),
    (r"\sqrt[3]{8}", "2"),
    (r"\sqrt[3]{-8}", "-2"),
    (r"\sqrt[3]{16}", r"2\sqrt[3]{2}"),
    (r"2^{1/2}", r"\sqrt{2}"),
    (r"\frac{1}{\sqrt{3}-1}", r"\frac{\sqrt{3}+1}{2}"),
    (r"\sqrt{5+2\sqrt{6}}", r"\sqrt{2}+\sqrt{3}"),
    (r"\sqrt{\frac{1}{4}}", "1/2"),
    (r"\sqrt{-4}", "2i"),
    (r"\sqrt{12}", r"\sqrt{4 \cdot 3}"),
    ("cbrt(27)", "3"),
    // Constants, functions, powers.
    (r"2\pi", "2π"),
    ("2*pi", r"\pi \cdot 2"),
    (r"\frac{\pi}{6}", r"\frac{1}{6}\pi"),
    ("e^2", r"e^{2}"),
    (r"\ln e", "1"),
    (r"\log_2 8", "3"),
    (r"\log_{10} 5", r"\log 5"),
    (r"\ln 8", r"3\ln 2"),
    (r"\sin 30^\circ", "1/2"),
    (r"\cos\frac{\pi}{3}", "0.5"),
    (r"\tan 45^\circ", "1"),
    (r"\sin^2 x + \cos^2 x", "1"),
    (r"\arctan 1", r"\frac{\pi}{4}"),
    (r"\sin^{-1} 1", r"\pi/2"),
    ("2^10", "1024"),
    ("2**10", "1024"),
    ("2^{-2}", "0.25"),
    ("5!", "120"),
    (r"\binom{10}{3}", "120"),
    ("|{-3}|", "3"),
    ("|x-1|", "|1-x|"),
    ("5 m/s", "500 cm/s"),
    (r"5 \mathrm{m}^2", "5"),
    (r"\left|-3\right|", "3"),
    (r"\lfloor 3.7 \rfloor", "3"),
    ("i^2", "-1"),
    ("3+4i", "4i+3"),
    (r"\frac{1}{i}", "-i"),
    ("(1+i)^2", "2i"),
    (r"e^{i\pi}", "-1"),
    // Formulas.
    ("(x+1)^2", "x^2+2x+1"),
    ("x^2-1", "(x-1)(x+1)"),
    ("ab", "ba"),
    ("2(x+y)", "2x+2y"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    (r"\frac{1}{x}+\frac{1}{y}", r"\frac{x+y}{xy}"),
    ("x/2", r"\frac{1}{2}x"),
    (r"\sqrt{x^2}", "|x|"),
    (r"\sqrt{4x}", r"2\sqrt{x}"),
    (r"x\sqrt{x}", "x^{3/2}"),
    ("2^{x+1}", r"2\cdot 2^x"),
    (r"\ln(xy)", r"\ln x + \ln y"),
    (r"\sin 2x", r"2\sin x\cos x"),
    ("a_1+a_2", "a_2+a_{1}"),
    (r"\theta+1", "1+θ"),
    ("x^2 y", "yx^2"),
    (r"\left(x+1\right)\left(x+2\right)", "x^2+3x+2"),
    ("pi r^2", r"\pi r^2"),
    // Wrappers.
    (r"\boxed{5}", "5"),
    ("$5$", "5"),
    (r"\(5\)", "5"),
    (r"$$\frac{1}{2}$$", "0.5"),
    (r"\text{E}", "E"),
    (r"\textbf{(E)}", "E"),
    (r"(\text{E})", "E"),
    (r"\mathrm{E}", "E"),
    (r"\displaystyle\frac{1}{2}", "1/2"),
    (r"\text{Yes}", "yes"),
    ("Evelyn", r"\text{Evelyn}"),
    ("no solution", "No solution."),
    (r"\textbf{(B)}\ 12", "B"),
    (r"\textbf{(B)}\ 12", "12"),
    (r"\textbf{(B) } 12", "(B)"),
    (r"\text{(C)} \quad \frac{1}{2}", "0.5"),
    ("(B) 12", "12"),
    (r"\textbf{(B)}\ 12", r"\mathrm{(B)}\ 12.0"),
    // Equations and names.
    (r"\approx 3.14", "3.14"),
    ("≈ 3.14", "3.14"),
    ("= 5", "5"),
    ("x = 3", "3"),
    ("3", "x=3"),
    (r"x = \frac{6}{2}", "x=3"),
    ("y = 2x + 3", "2x+3"),
    ("f(x) = x^2", "x^2"),
    ("y = 2x+3", "2x - y + 3 = 0"),
    ("x + y = 2", "2x + 2y = 4"),
    ("x = 1 + 1 = 2", "2"),
    // Several answers.
    ("2, 3", "3, 2"),
    (r"\{2, 3\}", "2, 3"),
    (r"\{1,2\}", r"\left\{2, 1\right\}"),
    ("x=2, x=3", "2, 3"),
    ("x = 2 or x = 3", "{3, 2}"),
    ("2 and 3", "2,3"),
    (r"\pm 2", "2, -2"),
    (r"1 \pm \sqrt{2}", r"1-\sqrt{2}, 1+\sqrt{2}"),
    (r"x = \pm 3", r"\{-3, 3\}"),
    (r"(\pm 1, 2)", "(1, 2), (-1, 2)"),
    (r"(\pm 1, 2)", r"(\mp 1, 2)"),
    (r"\{5\}", "5"),
    (r"\emptyset", r"\{\}"),
    ("1, 1, 2", "2, 1, 1"),
    (r"\{1, 1, 2\}", r"\{1, 2\}"),
    (r"\{1, 1, 2\}", "1, 2"),
    (r"\{1, 1, 2\}", "1, 1, 2"),
    (r"\pm 0", "0, 0"),
    // Tuples, intervals, matrices.
    ("(1, 2)", "(1,2)"),
    (r"\left(\frac{1}{2}, 3\right)", "(0.5, 3)"),
    ("(1,234)", "(1, 234)"),
    ("(1, 2)", "1, 2"),
    ("(2, 1)", "x=2, y=1"),
    ("(x, y) = (2, 1)", "(2, 1)"),
    (r"[0, \infty)", r"\left[0,\infty\right)"),
    ("x \\ge 0", r"[0, \infty)"),
    ("x > 3", "3 < x"),
    ("1 < x \\leq 2", "(1, 2]"),
    (r"(1,2) \cup (3,4)", r"(3,4)\cup(1,2)"),
    ("x < 1 or x > 2", r"(-\infty, 1) \cup (2, \infty)"),
    (r"x \in (1, 2)", "(1,2)"),
    ("2x > 6", "x > 3"),
    ("-x < -3", "x > 3"),
    (
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"\begin{bmatrix}1&2\\3&\frac{8}{2}\end{bmatrix}",
    ),
    ("[[1,2],[3,4]]", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "(1, 2)"),
    (r"\begin{array}{c} 1 \\ 2 \end{array}", r"\langle 1, 2 \rangle"),
    (r"\mathbb{R}", r"(-\infty, \infty)"),
    (r"x \in \mathbb{R}", r"(-\infty,\infty)"),
    ("ℝ", r"\mathbb R"),
    ("all real numbers", r"\mathbb{R}"),
    // Values that take room.
    ("3000!", r"3000\cdot 2999!"),
    (r"2^{100000}", r"4^{50000}"),
    (r"\binom{2000}{1000}", r"\frac{2000!}{1000!^2}"),
    // Proportions and bases.
    ("3:4", "6:8"),
    ("3:4", r"\frac{3}{4}"),
    ("1:2:3", "2:4:6"),
    ("2516_8", "2516"),
    ("101_2", "101_{2}"),
    ("A: 42", "42"),
    ("0:1:2", "0:2:4"),
    (r"2\text{ cm}:3\text{ cm}", "2:3"),
    (r"1:2\text{ m}", "1:2"),
    ("1 : 15", "2 : 30"),
    // Times.
    ("7:30", "07:30"),
    ("4:05", "4:05"),
    (r"7:30\text{ am}", "7:30"),
    ("7:30 am", r"7:30\text{ a.m.}"),
    ("(4:00, 5)", "(4:00, 5.0)"),
    // Number words.
    (r"5\text{ million}", "5000000"),
    ("5 million", "5,000,000"),
    ("$5 million", "5000000 dollars"),
    ("5 hundred thousand", "500000"),
    ("2 dozen eggs", "24"),
    (r"2\text{ thirds}", r"\frac23"),
    (r"5\text{ and a half}", "5.5"),
    (r"5\text{ squared}", "25"),
    (r"5^\circ\text{ below zero}", "-5"),
    (r"\text{negative }5", "-5"),
    ("minus 5", "-5"),
    (r"5\text{ or more}", r"5 \text{ or more}"),
    ("5 quarters", "5"),
    // What is left out of all numbers, and conditions.
    (r"x \ne 2", r"(-\infty, 2) \cup (2, \infty)"),
    (r"x \ne 2", "x < 2 or x > 2"),
    (r"\mathbb{R} \setminus \{2\}", r"x \neq 2"),
    (
        r"\mathbb{R} \setminus \{2, -1\}",
        r"(-\infty, -1) \cup (-1, 2) \cup (2, \infty)",
    ),
    (r"\{x \mid x > 2\}", r"(2, \infty)"),
    (r"\{x \in \mathbb{R} \mid x > 2\}", "x > 2"),
    (r"(0,1) \cup [1,2)", "(0,2)"),
    (r"(0,1) \cup [1,2) \cup (5, 6)", r"(5,6) \cup (0,2)"),
    (r"x \in (0,1)", "0 < x < 1"),
    (r"x \in [-2, 3]", r"-2 \le x \le 3"),
    (r"x \in [-2, 3)", r"-2 \le x < 3"),
    (r"x \in (0, 1)", "1 > x > 0"),
    (r"\sqrt2 \approx 1.414", r"\sqrt{2}"),
    (r"\sqrt2 \approx 1.414", "1.414"),
    (r"x = \sqrt2 \approx 1.414", r"\sqrt{2}"),
    (r"{5 \choose 2}", "10"),
    (r"\gcd(12, 18)", "6"),
    (r"\max\{2, 3\}", "3"),
    // Conditions that hold together.
    (r"x>1\text{ and }x<3", "(1,3)"),
    ("x>1, x<3", "(1,3)"),
    (r"x\ge1;x\le3", "[1,3]"),
    (r"x>1\land x<3", "(1,3)"),
    (r"1<x<3\text{ and }2<x<4", "(2,3)"),
    (r"0<x<2, x\neq1", r"(0,1)\cup(1,2)"),
    (r"x\ge-2, x\ne1", r"[-2,1)\cup(1,\infty)"),
    (r"x\ne2, x\ne-2", r"\mathbb{R}\setminus\{2,-2\}"),
    (r"x\ne\pm2", r"\mathbb{R}\setminus\{2,-2\}"),
    (r"x > \sqrt2, x < \sqrt5", r"(\sqrt2, \sqrt5)"),
    (r"x<1, x>3", r"(-\infty,1)\cup(3,\infty)"),
    (r"x<\sqrt2, x>\sqrt5", r"(-\infty,\sqrt2)\cup(\sqrt5,\infty)"),
    (r"x<1, 2<x<3\text{, or }x>5", r"(-\infty,1)\cup(2,3)\cup(5,\infty)"),
    (r"x<-1\text{ or }x=2", r"(-\infty,-1)\cup\{2\}"),
    ("x>0,y>1", "y>1,x>0"),
    ("x>0,y>1,x<2", "0<x<2,y>1"),
    (r"x<1\text{ and }x>3", r"\emptyset"),
    (r"\{x \mid x > 1, x < 3\}", "(1,3)"),
    // Values of functions, and derivatives.
    ("f(2)=10", "10"),
    ("f(0)=5", "5"),
    ("S(10)=55", "55"),
    ("f'(2)=5", "5"),
    ("f^{-1}(x)=x/2", "x/2"),
    ("f(2)=10", "f(2) = 10.0"),
    ("f(g(2))=10", "10"),
    ("P(X=2)=0.3", "0.3"),
    (r"\frac{dy}{dx}=2x", "2x"),
    ("dy/dx=2x", "2x"),
    (r"\frac{dy}{dx}=2x", "dy/dx=2x"),
    (r"\frac{d^2y}{dx^2}=6x", "6x"),
    ("x(x+1)=0", "x^2+x=0"),
    ("5=x", "5"),
    // Named values in the order of their names.
    ("y=6,x=5", "(5,6)"),
    ("b=2,a=1", "(1,2)"),
    ("(y,x)=(2,1)", "(1,2)"),
    (r"y=6\text{ and }x=5", "(5,6)"),
    ("y=2,x=1", "(x,y)=(1,2)"),
    ("x_2=4,x_1=3", "(3,4)"),
    (r"\theta=1,r=2", "(2,1)"),
    ("n=5,d=3", "(5,3)"),
    // Groups of conditions, of which one holds or another.
    (r"x=1,y=2 \text{ or } x=2,y=1", "(1,2),(2,1)"),
    ("x=1, y=2; x=2, y=1", "(1,2),(2,1)"),
    ("x=1, y=2, x=2, y=1", "(2,1),(1,2)"),
    (r"x=1\text{ and }y=2\text{ or }x=2\text{ and }y=1", r"\{(1,2),(2,1)\}"),
    (r"x=1,y=2 \\ x=2,y=1", "(1,2),(2,1)"),
    (r"x=0\text{ or }y=0", r"y=0\text{ or }x=0"),
    (r"x=0, y=0\text{, or }z=0", r"z=0\text{ or }y=0\text{ or }x=0"),
    (r"x>0\text{ or }y>0", r"y>0\text{ or }x>0"),
    (r"x>0,y>0\text{ or }x<0,y<0", r"x<0,y<0\text{ or }y>0,x>0"),
    // One value said twice.
    (r"\frac{1}{2} \text{ or } 0.5", "1/2"),
    (r"\frac12\text{ or }50\%", "0.5"),
    (r"x=\frac12\text{ or }x=0.5", "1/2"),
    (r"\dfrac{1}{2}\,(50\%)", "1/2"),
    ("3 and a half", "3.5"),
    // Systems, and remarks.
    (r"\begin{cases} x=3 \\ y=4 \end{cases}", "(3,4)"),
    (r"\begin{cases} x&=3 \\ y&=4 \end{cases}", "(3,4)"),
    (r"\begin{aligned} x&=3 \\ y&=4 \end{aligned}", "x=3, y=4"),
    (r"x=3 \\ y=4", "(3,4)"),
    (r"7 \pmod{10}", "7"),
    (r"x \equiv 7 \pmod{10}", "7"),
    ("7 (mod 10)", r"7\pmod{10}"),
    (r"7 \text{ (ways)}", "7"),
    (r"4210 \text{ (base 5)}", "4210_5"),
    (r"4210\text{ base }5", "4210_5"),
    (r"x \neq -2, 2", r"\mathbb{R}\setminus\{2,-2\}"),
    (r"x \neq -2\text{ and }2", r"\mathbb{R}\setminus\{2,-2\}"),
    (r"\mathbb{R} - \{2\}", r"x \ne 2"),
    (r"\text{all real numbers except } 2", r"x \ne 2"),
    ("All real numbers except 2 and -2", r"\mathbb{R}\setminus\{2,-2\}"),
    (r"(x,y)\in\{(1,2),(2,1)\}", "(1,2),(2,1)"),
    (
        r"\frac13\begin{pmatrix}-1\\2\\5\end{pmatrix}",
        r"\begin{pmatrix}-1/3\\2/3\\5/3\end{pmatrix}",
    ),
    (r"-\begin{pmatrix}1\\2\end{pmatrix}", "(-1,-2)"),
    (r"5\,\Omega", "5"),
    (r"5\,\Omega", "5 ohms"),
    ("|x|<3", "(-3,3)"),
    (r"|x|\ge 3", r"(-\infty,-3]\cup[3,\infty)"),
    ("1<|x|<3", r"(-3,-1)\cup(1,3)"),
    (r"3 > |x| \ge 1", r"(-3,-1]\cup[1,3)"),
    ("x=y=0", "x=0,y=0"),
    ("x=y=0", "(0,0)"),
    ("x=y=5", "5"),
    ("f(x)=2x+1", "y=2x+1"),
    (r"\binom n2", r"\frac{n(n-1)}{2}"),
    (r"{n \choose 3}", r"\frac{n(n-1)(n-2)}{6}"),
    (r"0.\dot6", "2/3"),
    (r"0.1\dot{6}", "1/6"),
    (r"5\checkmark", "5"),
    (r"\text{Answer: }5", "5"),
    ("P(3,4)", "(3,4)"),
    // What only sets type.
    (r"\color{red}{5}", "5"),
    (r"\textcolor{blue}{5}", "5"),
    (r"\underline{5}", "5"),
    (r"\hspace{1em}5", "5"),
];

/// Pairs that are not equal.
const DIFFERENT: &[(&str, &str)] = &[
    ("60 mph", "60 km/h"),
    ("5 gallons", "5 liters"),
    ("5 Hz", "5 kHz"),
    ("5 acres", "5 hectares"),
    ("30 mpg", "30 km"),
    ("5 apples", "5 oranges"),
    ("5 apples", "5 kg"),
    ("5 light years", "5 years"),
    ("5 widgets", "5 widgets per hour"),
    (r"5\text{ mV}", r"5\text{ MV}"),
    (r"20^\circ\text{C}", r"20^\circ\text{F}"),
    (r"20^\circ\text{C}", "21"),
    ("9.8 m/s", "9.8 meters per second squared"),
    ("6s^2", "6"),
    ("3h", "4"),
    (r"\frac12 g", "4g"),
    ("3m", "3n"),
    (r"\textbf{(B)}\ 12", "C"),
    (r"\textbf{(B)}\ 12", r"\textbf{(C)}\ 12"),
    (r"\textbf{(B)}\ 12", "13"),
    (r"\text{(A)} \text{ and } \text{(B)}", "A"),
    ("(B) + 12", "12"),
    (r"\approx 3.14", r"\pi"),
    (r"\le 5", "5"),
    (r"\mathbb{R}", r"(0, \infty)"),
    (r"\mathbb{R}", "5"),
    ("R", r"(-\infty, \infty)"),
    ("3000!", r"3000\cdot 2998!"),
    (r"2^{100000}", r"2^{100000} + 1"),
    (r"\binom{2000}{1000}", r"\binom{2000}{1001}"),
    ("1, 1, 2", "1, 2"),
    ("1, 1, 2", "1, 2, 2"),
    ("1, 1, 2", r"\{1, 2\}"),
    ("1e5000", "2e2500"),
    ("5", "6"),
    ("5", "-5"),
    ("0.1", "0.10000000000000001"),
    ("9007199254740993", "9007199254740992"),
    ("0.3", r"0.\overline{3}"),
    ("1/3", "0.333"),
    (r"\frac{1}{2}", r"\frac{2}{1}"),
    (r"2\frac{1}{2}", "1"),
    ("9500", "9,50"),
    ("1,000", "1"),
    (r"50\%", "5"),
    ("50%", "500"),
    ("90°", "91"),
    ("5 cm", "5 m"),
    ("5 cm", "6"),
    ("5 cm", "5 kg"),
    ("$5", "€5"),
    ("$5", "6"),
    ("1.5e3", "150"),
    (r"\pi", "3.14"),
    (r"\pi", "3.14159265358979"),
    (r"\pi", r"\frac{22}{7}"),
    ("e", "2.718281828"),
    (r"\sqrt{2}", "1.41421356"),
    (r"\sqrt{2}", "-\\sqrt{2}"),
    (r"\sqrt{2}", r"\sqrt{3}"),
    (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5}"),
    (r"\ln 2", r"\log 2"),
    (r"\sin 30", "1/2"),
    (r"\sqrt{x^2}", "x"),
    ("(x+1)^2", "x^2+1"),
    ("x+1", "x"),
    ("x", "y"),
    ("2x", "x^2"),
    ("x/2y", "x/(2y)"),
    ("x = 3", "4"),
    ("x = 3", "y = 3"),
    ("y = 2x+3", "2x+4"),
    ("x + y = 2", "x + y = 3"),
    ("x > 3", "x < 3"),
    ("x > 3", "x \\ge 3"),
    ("x > 3", "3"),
    ("-x < 3", "x < -3"),
    ("2, 3", "2, 4"),
    ("2, 3", "2"),
    ("2, 3", "2, 3, 4"),
    (r"\pm 2", "2"),
    ("(1, 2)", "(2, 1)"),
    ("(1, 2)", "[1, 2]"),
    ("(1, 2]", "[1, 2)"),
    ("(1, 2)", "(1, 2, 3)"),
    ("(1, 2)", "12"),
    ("(1, 2)", r"\{1, 2\}"),
    (r"[0, \infty)", r"(0, \infty)"),
    (r"\infty", r"-\infty"),
    (r"(1,2) \cup (3,4)", "(1,2)"),
    (
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}",
    ),
    (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", "(2, 1)"),
    (
        r"\begin{pmatrix} 1 & 2 \end{pmatrix}",
        r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
    ),
    (r"(\pm 1, 2)", "(1, 2)"),
    ("A", "B"),
    (r"\text{E}", "5"),
    ("yes", "no"),
    (r"\text{Yes}", "1"),
    ("no solution", "0"),
    (r"\emptyset", "0"),
    ("3:4", "4:3"),
    ("2516_8", "2516_9"),
    ("2516_8", "1358"),
    ("i", "1"),
    ("3+4i", "3-4i"),
    ("", ""),
    ("", "5"),
    (r"\frac{1}{0}", "0"),
    (r"\frac{1}{0}", r"\frac{2}{0}"),
    ("5!", "5"),
    ("2^{100}", "2^{101}"),
    (r"\sqrt[3]{-8}", "2"),
    ("10^{-40}", "0"),
    ("-3)", "3"),
    (r"\frac{1}{2", "1/2/1"),
    ("5 m", "5 cm"),
    (r"\frac{1}{2}}", "1 2"),
    ("|x|", "x"),
    ("(x-1)(x+2", "x^2+x-2"),
    ("1 2", "12"),
    (r"1\,2", "12"),
    // Times that are no ratios, and ratios that are not the same.
    ("4:00", "8:00"),
    ("11:00", "7:00"),
    ("(4:00, 5)", "(8:00, 5)"),
    ("0:30", "0:45"),
    ("1:15", "2:30"),
    ("0:1:2", "0:3:7"),
    ("1:0:0", "0:1:0"),
    (r"7:30\text{ am}", r"7:30\text{ pm}"),
    ("7:30 a.m.", "7:30 p.m."),
    ("7:30 am", "7:30 pm"),
    (r"1:2\text{ m}", r"1:2\text{ s}"),
    (r"2\text{ cm}:3\text{ m}", "2:3"),
    ("4:00", "4"),
    // Number words.
    (r"5\text{ million}", "5"),
    (r"5\text{ thousand}", "5"),
    (r"5\text{ hundred}", "5"),
    ("5 dozen", "5"),
    (r"5\text{ or more}", "5"),
    ("5 or more", "5"),
    (r"5\%\text{ or more}", r"5\%"),
    (r"5\text{ apples or more}", "5 apples"),
    (r"5\text{ at most}", "5"),
    (r"5\text{ negative}", "5"),
    (r"5^\circ\text{ below zero}", "5"),
    (r"5\text{ thirds}", "5"),
    (r"5\text{ squared}", "5"),
    (r"5\text{ and a half}", "5"),
    (r"\text{negative }5", "5"),
    // Sets.
    (r"x \in (0,1)", "0 < y < 1"),
    (r"x \in (0,1)", r"0 \le x < 1"),
    (r"x \ne 2", "x = 2"),
    (r"x \ne 2", r"x \ne 3"),
    (r"(0,1) \cup (1,2)", "(0,2)"),
    (r"\{x \mid x > 2\}", r"[2, \infty)"),
    (r"\sqrt2 \approx 1.414", r"\sqrt{3}"),
    // Conditions on one variable or several.
    (r"x<1\text{ and }x>3", r"(-\infty,1)\cup(3,\infty)"),
    (r"k<-1\text{ and }k>1", r"k<-1\text{ or }k>1"),
    ("x>0,y>0", "x>0"),
    ("x>0,y>0", "y>0"),
    ("a>0, b>0", "a>0"),
    ("x>0,y>1", "x>1,y>0"),
    ("x<1,y>1", "x>1,y<1"),
    ("0<x<1, 0<y<1", "0<x<1"),
    ("x>1, x<3", r"(-\infty,\infty)"),
    ("x>1, x<3", "(1,4)"),
    // Values of functions, and derivatives.
    ("f(2)=5", "f(3)=7.5"),
    ("f(2)=5", "f=5/2"),
    ("f(2)=10", "5"),
    (r"\frac{dx}{dt}", "x/t"),
    ("dx/dt", r"\frac{x}{t}"),
    // Named values in another order.
    ("y=5,x=6", "(5,6)"),
    ("b=1,a=2", "(1,2)"),
    ("(y,x)=(1,2)", "(1,2)"),
    ("(y,x)=(1,2)", "(x,y)=(1,2)"),
    (r"y=5\text{ and }x=6", "(5,6)"),
    ("x=1,y=2", "y=1,x=2"),
    // Groups of conditions, of which one holds or another.
    (r"x=1,y=2 \text{ or } x=3,y=4", r"x=1,y=4 \text{ or } x=3,y=2"),
    (r"x=1,y=2 \text{ or } x=3,y=4", "1,2,3,4"),
    (r"x=1,y=2 \text{ or } x=3,y=4", "x=1,y=2"),
    (r"x=0 \text{ or } y=0", "(0,0)"),
    (r"x=0 \text{ or } y=0", "x=0, y=0"),
    (r"x=0 \text{ or } y=0", r"x=0\text{ and }y=0"),
    (r"x=0 \text{ or } y=0", r"x=0\text{ or }y=1"),
    (r"x=0 \text{ or } y=0", "0"),
    ("x=2, y=3", r"x=2\text{ or }y=3"),
    (r"x>0\text{ or }y>0", r"x>0\text{ and }y>0"),
    (r"x=2\text{ or }x=3", "(2,3)"),
    // What is said twice is two values, unless they are one.
    (r"\frac{1}{2} \text{ or } 0.6", "1/2"),
    (r"5\text{ or }6", "5"),
    (r"x=1\text{ or }y=1", "1"),
    (r"50\%\text{ or }50", "0.5"),
    (r"\frac12 \cdot (50\%)", "1/2"),
    // Systems, and remarks.
    (r"\begin{cases} x=3 \\ y=4 \end{cases}", "(4,3)"),
    (r"\begin{cases} x & x>0 \\ -x & x<0 \end{cases}", "x"),
    (r"7 \pmod{10}", r"7 \pmod{12}"),
    (r"7 \pmod{10}", "8"),
    (r"x \neq -2, 2", r"x \ne 2"),
    (r"x \neq -2, 2", "2"),
    (r"\text{all real numbers except } 2", r"x \ne 3"),
    (r"\text{all real numbers except } 2", "2"),
    (r"2\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)"),
    ("|x|<3", r"[-3,3]"),
    ("|x|>3", "(-3,3)"),
    ("x=y=0", "(0,1)"),
    ("f(x)=2x+1", "y=2x+2"),
    ("f(x)=2x+1", "g(x)=2x+1"),
    (r"\binom n2", r"\frac{n(n+1)}{2}"),
    (r"0.\dot6", "0.6"),
    (r"\infty - \infty", "0"),
    (r"\frac{\infty}{\infty}", "1"),
    (r"0 \cdot \infty", "0"),
];

#[test]
fn the_table_holds_in_both_directions() {
    assert!(EQUAL.len() + DIFFERENT.len() >= 150);
    let mut failures = Vec::new();
    for (pairs, wanted) in [(EQUAL, true), (DIFFERENT, false)] {
        for (one, other) in pairs {
            if equal(one, other) != wanted || equal(other, one) != wanted {
                let node = (Answer::read(one), Answer::read(other));
                failures.push(format!("{one}  against  {other}: wanted {wanted}\n    {node:?}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of the table:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Answers of one line have one canonical form.
#[test]
fn equal_answers_have_one_canonical_form() {
    let mut failures = Vec::new();
    for (form, answers) in [
        (
            "1/2",
            &[
                r"\frac{1}{2}",
                "0.5",
                r"\sin 30^\circ",
                r"\dfrac{2}{4}",
                "x = 0.50",
                r"\sqrt{1/4}",
            ][..],
        ),
        ("9500", &["$9{,}500", "9,500", r"9500\text{ dollars}"]),
        (
            "1.41421356237309504880168872421",
            &[
                r"\sqrt{2}",
                r"\frac{2}{\sqrt{2}}",
                "2^{0.5}",
                r"\frac{1}{\sqrt 2 - 1} - 1",
            ],
        ),
        ("x^2+2*x+1", &["(x+1)^2", "1+2x+x^2", "y = (x+1)(x+1)"]),
        ("pi*r^2", &[r"\pi r^2", "r^2 pi", r"\frac{\pi^2 r^2}{\pi}"]),
        ("{-2, 2}", &[r"\pm 2", "2, -2", r"\{-2, 2\}", "x=2 or x=-2"]),
        (
            "(1, 1/2)",
            &[
                "(1, 0.5)",
                r"\left(1, \frac{1}{2}\right)",
                r"\begin{pmatrix} 1 \\ 1/2 \end{pmatrix}",
            ],
        ),
        ("[0, infinity)", &[r"[0, \infty)", r"x \ge 0", r"x \in [0, \infty)"]),
        ("no solution", &["No solution.", r"\text{no solution}"]),
        ("50 %", &[r"50\%", "50 percent"]),
        ("90 °", &[r"90^\circ", "90 degrees"]),
        ("7:30", &["7:30", "07:30"]),
        ("(0, 2)", &["(0,2)", "0 < x < 2", "x > 0, x < 2"]),
        ("(1, 2)", &["(1, 2)", "x=1, y=2", "y=2, x=1", "(y,x)=(2,1)"]),
        ("{x in (0, infinity), y in (1, infinity)}", &["x>0, y>1", "y>1, x>0"]),
        (
            "{(1, 2), (2, 1)}",
            &["(1,2),(2,1)", r"x=2,y=1\text{ or }x=1,y=2", "y=2, x=1; x=2, y=1"],
        ),
        ("x in 0 or y in 0", &[r"x=0\text{ or }y=0", r"y=0\text{ or }x=0"]),
        ("1/2", &[r"\frac12\text{ or }0.5"]),
        ("3+4*i", &["4i+3", r"3 + \sqrt{-16}"]),
    ] {
        for answer in answers {
            let canonical = Answer::read(answer).canonical();
            if canonical != form {
                failures.push(format!("{answer}: {canonical} and not {form}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn canonical_forms_of_the_table_never_join_what_differs() {
    // What one side may leave out is in no form: units, bases, moduli, names, and whether a vector is a row or a column.
    let left_out = [
        "cm",
        "$",
        "_8",
        "x = 3",
        "1 & 2 \\end",
        "mph",
        "gallon",
        "Hz",
        "acre",
        "mpg",
        "apples",
        "light",
        "widgets",
        "mV",
        "C}",
        "(B)",
        r"x \in (0,1)",
        r"2\text{ m}",
        r"\pmod{10}",
        "f(x)=2x+1",
    ];
    let mut failures = Vec::new();
    for (one, other) in DIFFERENT {
        let is_left_out = left_out.iter().any(|left_out| one.contains(left_out));
        let form = Answer::read(one).canonical();
        if !is_left_out && !other.is_empty() && form == Answer::read(other).canonical() {
            failures.push(format!("{one} and {other}: {form}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_may_be_a_time_or_a_ratio_is_undecided_where_only_the_ratio_is_the_same() {
    let verdict = |target: &str, answer: &str| {
        compare(&Answer::read(target), &Answer::read(answer), &mut Steps::default()).verdict
    };
    for (target, answer, wanted) in [
        ("1:15", "2:30", Verdict::Undecided),
        ("7:30", "14:60", Verdict::Undecided),
        ("15:20", "3:4", Verdict::Undecided),
        ("(1:15, 2)", "(2:30, 2)", Verdict::Undecided),
        ("1:15", "1:15", Verdict::Equal),
        ("1:15", "1:16", Verdict::Different),
        ("(1:15, 2)", "(2:30, 3)", Verdict::Different),
        // A target that is no time is a ratio, and what is surely a time is none.
        ("3:4", "15:20", Verdict::Equal),
        ("7/30", "7:30", Verdict::Equal),
        ("4:00", "8:00", Verdict::Different),
        ("0:30", "0:45", Verdict::Different),
    ] {
        assert_eq!(verdict(target, answer), wanted, "{target} {answer}");
    }
}

/// A sum of variables, or a function of them, has the value that is stated; an equation of one letter names nothing.
#[test]
fn an_answer_that_names_more_than_a_letter_is_its_value_against_a_bare_one() {
    for (target, answer) in [
        ("113", "m+n=113"),
        ("113", "a+b+c = 113"),
        ("113", "100m+n = 113"),
        ("113", "m+n=100+13=113"),
        ("1130", "m+n=1,130"),
        ("5", "|z| = 5"),
        ("3", r"\cos\theta = 3"),
        ("113", r"\angle ABC = 113^\circ"),
        ("5", r"|AB| = 5\text{ cm}"),
        ("3", r"\gcd(a,b)=3"),
        ("3", r"\lim_{x\to 0} f(x)=3"),
        ("5", "[ABC]=5"),
        ("3", "f(1)+f(2)=3"),
        ("3", r"\det A=3"),
        ("3", r"(f\circ g)(2)=3"),
        ("(1,2)", r"\overrightarrow{AB}=(1,2)"),
    ] {
        assert!(equal(target, answer), "{target} {answer}");
    }
    for (target, answer) in [
        ("113", "m+n=114"),
        ("5", "2x=5"),
        ("9", "x^2=9"),
        ("3", r"\sqrt{x}=3"),
        ("3", "m+n>3"),
        ("3", "m+n=3, p=4"),
        ("3", r"m+n=3\text{ or }4"),
        ("3", r"m+n\ne 3"),
        ("4", "x+y=2, y=4"),
        ("0", "x(x+1)=0"),
        // A target that is an equation is none of its sides.
        ("x+y=2", "2"),
        ("|z|=5", "5"),
    ] {
        assert!(!equal(target, answer), "{target} {answer}");
    }
}

#[test]
fn what_is_nested_deeper_than_is_read_is_undecided() {
    let nested = |times: usize| format!("{}1{}", r"\sqrt{".repeat(times), "}".repeat(times));
    let verdict = |answer: &str| compare(&Answer::read("1"), &Answer::read(answer), &mut Steps::default()).verdict;
    assert_eq!(verdict(&nested(50)), Verdict::Equal);
    assert_eq!(verdict(&nested(300)), Verdict::Undecided);
    assert_eq!(
        verdict(&format!("{}1{}", "(".repeat(50), ")".repeat(50))),
        Verdict::Equal
    );
    assert_eq!(
        verdict(&format!("{}1{}", "(".repeat(300), ")".repeat(300))),
        Verdict::Undecided
    );
    // Brackets without end are no formula that anybody could read.
    assert_eq!(verdict(&"(".repeat(300)), Verdict::Different);
}

/// A letter of the target is a variable; one that only the answer has is a unit.
#[test]
fn letters_that_may_be_units_are_left_out_of_answers_alone() {
    let verdict = |target: &str, answer: &str| {
        compare(&Answer::read(target), &Answer::read(answer), &mut Steps::default()).verdict
    };
    for (target, answer) in [
        ("5", "5 m"),
        ("5", "5m"),
        ("5", "5 m^2"),
        ("5", "5 m/s"),
        ("(1, 5)", "(1, 5 m)"),
    ] {
        assert_eq!(verdict(target, answer), Verdict::Equal, "{target} {answer}");
    }
    for (target, answer) in [
        ("6s^2", "6"),
        ("2s", "2"),
        ("3h", "3"),
        ("4g", "4"),
        (r"12\pi h", r"12\pi"),
        (r"\frac12 g", r"\frac12"),
        ("3m", "3"),
        ("(1, 3m)", "(1, 3)"),
        ("3m, 4", "3, 4"),
        ("6", "6s^2"),
        ("5 m", "6"),
    ] {
        assert_eq!(verdict(target, answer), Verdict::Different, "{target} {answer}");
    }
    // Set apart it may be either, and only the target's author knows.
    assert_eq!(verdict("5 m", "5"), Verdict::Undecided);
    assert_eq!(verdict("6 s", "6"), Verdict::Undecided);
}

#[test]
fn values_beyond_what_is_computed_with_are_undecided() {
    let verdict = |target: &str, answer: &str| {
        compare(&Answer::read(target), &Answer::read(answer), &mut Steps::default()).verdict
    };
    assert_eq!(verdict("30000!", r"30000 \cdot 29999!"), Verdict::Undecided);
    assert_eq!(verdict("9^{9^{9^9}}", r"9^{9^{9^9}} + 0"), Verdict::Undecided);
    assert_eq!(verdict("2^{400000}", "2^{400000} + 1"), Verdict::Undecided);
    assert_eq!(verdict("2^{300000}", "2^{300001}"), Verdict::Undecided);
    assert_eq!(verdict("2.5!", "5"), Verdict::Different);
}

#[test]
fn what_is_longer_than_is_read_is_undecided_unless_it_is_words() {
    let verdict = |target: &str, answer: &str| {
        compare(&Answer::read(target), &Answer::read(answer), &mut Steps::default()).verdict
    };
    assert_eq!(
        verdict("3001x", &format!("{}x", "x+".repeat(3_000))),
        Verdict::Undecided
    );
    let nines = "9".repeat(3_000);
    assert_eq!(
        verdict("1", &format!(r"\frac{{{nines}}}{{{nines}}}")),
        Verdict::Undecided
    );
    assert_eq!(verdict("5", &format!("5{}", r"\,".repeat(4_000))), Verdict::Undecided);
    let numbers = |all: &mut dyn Iterator<Item = u32>| {
        let all: Vec<String> = all.map(|number| number.to_string()).collect();
        format!(r"\{{{}\}}", all.join(","))
    };
    let (up, down) = (numbers(&mut (1..1_500)), numbers(&mut (1..1_500).rev()));
    assert_eq!(verdict(&up, &down), Verdict::Undecided);
    assert_eq!(verdict(&up, &up), Verdict::Equal);
    assert_eq!(verdict("5", &"it is hard to say ".repeat(400)), Verdict::Different);
}

#[test]
fn named_values_whose_order_in_a_tuple_nobody_knows_are_undecided_where_the_alphabet_alone_agrees() {
    let verdict = |target: &str, answer: &str| {
        compare(&Answer::read(target), &Answer::read(answer), &mut Steps::default()).verdict
    };
    assert_eq!(verdict("(5,3)", "n=3,d=5"), Verdict::Undecided);
    assert_eq!(verdict("(5,3)", "n=4,d=5"), Verdict::Different);
    assert_eq!(verdict("(2,3)", "m=2,b=3"), Verdict::Equal);
}

#[test]
fn how_it_was_decided_is_said() {
    let how = |one: &str, other: &str| compare(&Answer::read(one), &Answer::read(other), &mut Steps::default());
    assert_eq!(how("0.5", "1/2").how, "exactly");
    assert_eq!(how("5 cm", "5").how, "without the unit");
    assert_eq!(how(r"\ln 8", r"3\ln 2").how, "by value, to 130 bits");
    assert_eq!(how("2, 3", "3, 2").verdict, Verdict::Equal);
}
