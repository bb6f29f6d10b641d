//! The results, as a page of Markdown.

use crate::alternate::{Measured, Spread, Unit};

/// Writes the page of the book: the method, the machine, and the table.
pub(crate) fn page(how: &str, all: &[Measured]) -> String {
    let rows: String = all.iter().map(rows).collect();
    format!(
        "# Measurements\n\n{how} In each round, each program took one turn, timed by the system's clock. A cell has the median of all \
         rounds and, in parentheses, the range of the middle half of the rounds. The last column has the ratio to the first program \
         of this kind of work. Compare ratios, not times. A program that protects nothing does less than `soloist` does.\n\n\
         | work | program | protects | took | ratio to the first |\n| --- | --- | --- | --- | --- |\n{rows}\n![The table as a picture.](measured.svg)\n"
    )
}

/// Writes the lines of the table for one kind of work.
pub(crate) fn rows(Measured { title, unit, rows }: &Measured) -> String {
    let lines = rows.iter().enumerate().map(|(at, row)| {
        let title = if at == 0 { title } else { "" };
        let (scale, name) = unit.scale(row.value.median);
        let ratio = if at == 0 { "1".to_owned() } else { row.ratio.show(1.0, "") };
        format!("| {title} | {} | {} | {} | {ratio} |\n", row.name, row.protects, row.value.show(scale, name))
    });
    lines.collect()
}

impl Unit {
    /// Returns the factor that turns a value into a readable unit, and the name of the unit.
    fn scale(self, value: f64) -> (f64, &'static str) {
        match self {
            Self::Bytes => (1.0 / f64::from(1 << 20), " MiB"),
            Self::Seconds if value < 1e-7 => (1e9, " ns"),
            Self::Seconds if value < 1e-3 => (1e6, " µs"),
            Self::Seconds => (1e3, " ms"),
        }
    }
}

impl Spread {
    fn show(self, scale: f64, name: &str) -> String {
        let [low, median, high] = [self.low, self.median, self.high].map(|value| digits(value * scale));
        format!("**{median}**{name} ({low} to {high})")
    }
}

/// Writes a number with three digits, or with more digits and no decimal places from 1,000 on.
pub(crate) fn digits(value: f64) -> String {
    let places = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}
