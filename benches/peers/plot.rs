//! The ratios of the table as a picture with a logarithmic scale. A contender that takes less than the first contender
//! of its kind has a bar to the left of the line at 1.
//!
//! Inside an HTML page, the picture has the text colour of the page. As a separate file, it has colours for light and
//! for dark viewers.

use std::fmt::Write;

use crate::alternate::{Measured, NOTHING, Row};
use crate::table::digits;

const WIDTH: f64 = 960.0;
/// The bars are between `LEFT`, where the names end, and `RIGHT`, where the longest bar ends.
const LEFT: f64 = 340.0;
const RIGHT: f64 = 900.0;
const LINE: f64 = 19.0;
const STYLE: &str = "@media (prefers-color-scheme: dark) { svg:root { color: #ddd; background: #222 } }";

/// Makes the picture. It has no empty line, because HTML in Markdown ends at an empty line.
pub(crate) fn draw(all: &[Measured]) -> String {
    let ratios = all.iter().flat_map(|measured| &measured.rows).map(|row| row.ratio.median);
    let (low, high) = ratios.fold((1.0_f64, 1.0_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
    let at = |ratio: f64| LEFT + (RIGHT - LEFT) * (ratio / low).ln() / (high / low).ln();
    let (names, one) = (LEFT - 12.0, at(1.0));
    let mut y = LINE;
    let mut lines = String::new();
    let mut put = |line: std::fmt::Arguments| writeln!(lines, "{line}").expect("a text takes everything");
    for Measured { title, rows, .. } in all {
        let [floor, others @ ..] = &rows[..] else { continue };
        y += 1.7 * LINE;
        let floor = plain(&floor.name);
        put(format_args!(r#"<text y="{y}"><tspan font-weight="bold">{}</tspan>; 1: {floor}</text>"#, plain(title)));
        for row in others {
            y += LINE;
            let ratio = row.ratio.median;
            let (name, from, to, top) = (label(row), at(ratio.min(1.0)), at(ratio.max(1.0)), y - 11.0);
            let colour = if row.is_ours() { "#e07b00" } else { "#8a8f98" };
            let opacity = if row.protects == NOTHING { 0.4 } else { 1.0 };
            let width = (to - from).max(1.0);
            let (below, digits) = (y + 5.0, digits(ratio));
            put(format_args!(r#"<text x="{names}" y="{y}" text-anchor="end">{name}</text>"#));
            put(format_args!(
                r#"<rect x="{from:.1}" y="{top}" width="{width:.1}" height="13" fill="{colour}" opacity="{opacity}"/>"#
            ));
            put(format_args!(r#"<path d="M{one:.1} {below} v-{LINE}" stroke="currentColor"/>"#));
            put(format_args!(r#"<text x="{x:.1}" y="{y}">{digits}</text>"#, x = to + 6.0));
        }
    }
    let frame = format!(r#"viewBox="0 0 {WIDTH} {height:.0}" width="100%" role="img""#, height = y + LINE);
    let look = r#"font-family="sans-serif" font-size="13" fill="currentColor""#;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {frame} {look}>\n\
         <title>soloist beside its peers and floors</title>\n<style>{STYLE}</style>\n\
         <text y=\"{LINE}\">Ratios to the first program of each kind of work. Orange: soloist. Pale: protects nothing.</text>\n{lines}</svg>\n"
    )
}

/// Returns the label of a bar. All rows of soloist have one name, so their labels also say what they protect.
fn label(row: &Row) -> String {
    let name = plain(&row.name);
    if row.is_ours() && row.protects.starts_with("a ") { format!("{name}: {}", row.protects) } else { name }
}

/// Removes the backticks of Markdown.
fn plain(text: &str) -> String {
    text.replace('`', "")
}
