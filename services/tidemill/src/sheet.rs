//! A table of no more columns than the terminal has room for.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

/// Cells, and what a narrow terminal makes of them.
pub(crate) struct Sheet<'a> {
    pub(crate) header: Vec<String>,
    /// Each as long as the header.
    pub(crate) rows: Vec<Vec<String>>,
    /// Columns of numbers, which stand to the right.
    pub(crate) numbers: &'a [usize],
    /// Columns that are never broken into lines.
    pub(crate) whole: &'a [usize],
    /// Columns that a narrow terminal does without, the first of them first.
    pub(crate) spare: &'a [usize],
}

/// A sheet as it was drawn.
pub(crate) struct Drawn {
    pub(crate) text: String,
    /// There was no room for these columns.
    pub(crate) left_out: Vec<usize>,
}

/// The columns of the terminal that data goes to; `None` where it goes elsewhere.
pub(crate) fn width_of_data() -> Option<usize> {
    Table::new().width().map(usize::from)
}

/// The columns of the terminal that is told what happens.
pub(crate) fn width_of_notes() -> Option<usize> {
    Table::new().use_stderr().width().map(usize::from)
}

impl Sheet<'_> {
    /// Draws the columns that fit into `width`, all of them without one. Where even those that cannot be spared do not fit, the
    /// widest of them are broken into lines.
    pub(crate) fn draw(&self, width: Option<usize>) -> Drawn {
        let mut left_out = Vec::new();
        let mut spare = self.spare.iter();
        while width.is_some_and(|width| self.width(&left_out) > width)
            && let Some(column) = spare.next()
        {
            left_out.push(*column);
        }
        Drawn {
            text: self.table(&left_out, width).to_string(),
            left_out,
        }
    }

    fn shown(&self, left_out: &[usize]) -> Vec<usize> {
        (0..self.header.len())
            .filter(|column| !left_out.contains(column))
            .collect()
    }

    /// A cell has a space on either side, and one stands between two of them; a border at either end.
    fn width(&self, left_out: &[usize]) -> usize {
        let shown = self.shown(left_out);
        let widest = |column: &usize| {
            let cells = std::iter::once(&self.header).chain(&self.rows);
            cells.map(|cells| cells[*column].chars().count()).max().unwrap_or(0)
        };
        shown.iter().map(|column| widest(column) + 3).sum::<usize>() + 1
    }

    fn table(&self, left_out: &[usize], width: Option<usize>) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = width {
            table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        let shown = self.shown(left_out);
        let pick = |cells: &[String]| -> Vec<String> { shown.iter().map(|column| cells[*column].clone()).collect() };
        table.set_header(pick(&self.header));
        table.add_rows(self.rows.iter().map(|cells| pick(cells)));
        for (place, column) in shown.iter().enumerate() {
            let Some(drawn) = table.column_mut(place) else {
                continue;
            };
            if self.numbers.contains(column) {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
            if self.whole.contains(column) {
                drawn.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet<'static> {
        let texts = |texts: [&str; 4]| texts.map(str::to_owned).to_vec();
        Sheet {
            header: texts(["name", "spare", "first to go", "failed"]),
            rows: vec![texts(["a long name of a benchmark", "12", "34", "1234567"])],
            numbers: &[1, 2, 3],
            whole: &[3],
            spare: &[2, 1],
        }
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn columns_go_one_after_the_other_until_the_rest_fits() {
        let sheet = sheet();
        let full = sheet.draw(None);
        let natural = widest(&full.text);
        for (width, expected) in [
            (natural, &[][..]),
            (natural - 1, &[2][..]),
            (natural - 15, &[2, 1]),
            (30, &[2, 1]),
        ] {
            let drawn = sheet.draw(Some(width));
            assert_eq!(drawn.left_out, expected, "{width}\n{}", drawn.text);
            assert!(widest(&drawn.text) <= width, "{width}\n{}", drawn.text);
            assert!(drawn.text.contains("1234567"), "{width}\n{}", drawn.text);
        }
        assert!(full.left_out.is_empty() && full.text.contains("first to go"));
    }
}
