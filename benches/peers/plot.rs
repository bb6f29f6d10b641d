//! The ratios as a picture: bars to the left of one are quicker or smaller than the floor, on a logarithmic scale.
//!
//! It is shown by a page of HTML, whose colour its text takes, and stands alone, in light and in dark.

use std::fmt::Write;

use crate::alternate::Measured;
use crate::table::digits;

const WIDTH: f64 = 960.0;
/// Where bars may lie, between the names and the last ratio.
const LEFT: f64 = 400.0;
const RIGHT: f64 = 900.0;
const LINE: f64 = 19.0;

/// HTML in Markdown ends at an empty line: there is none.
pub(crate) fn draw(all: &[Measured]) -> String {
    let ratios = all.iter().flat_map(|measured| &measured.rows).map(|row| row.ratio.median);
    let (low, high) = ratios.fold((1.0_f64, 1.0_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
    let at = |ratio: f64| LEFT + (RIGHT - LEFT) * (ratio / low).ln() / (high / low).ln();
    let mut y = 2.0 * LINE;
    let mut lines = String::new();
    let mut put = |line: std::fmt::Arguments| writeln!(lines, "{line}").expect("a text takes everything");
    for Measured { title, rows, .. } in all {
        let [floor, others @ ..] = &rows[..] else { continue };
        y += 1.5 * LINE;
        put(format_args!(
            r#"<text x="{x}" y="{y}" text-anchor="end" font-weight="bold">{title}</text>"#,
            x = LEFT - 12.0
        ));
        put(format_args!(r#"<text x="{LEFT}" y="{y}" opacity=".7">1 = {}</text>"#, plain(&floor.name)));
        for row in others {
            y += LINE;
            let ratio = row.ratio.median;
            let (from, to) = (at(ratio.min(1.0)), at(ratio.max(1.0)));
            let colour = if row.is_ours() { "#e07b00" } else { "#8a8f98" };
            let opacity = if row.protects == crate::alternate::NOTHING { 0.4 } else { 1.0 };
            let name = plain(&row.name);
            put(format_args!(r#"<text x="{x}" y="{y}" text-anchor="end">{name}</text>"#, x = LEFT - 12.0));
            put(format_args!(
                r#"<rect x="{from:.1}" y="{top}" width="{width:.1}" height="13" fill="{colour}" opacity="{opacity}"/>"#,
                top = y - 11.0,
                width = (to - from).max(1.0)
            ));
            put(format_args!(r#"<text x="{x:.1}" y="{y}">{}</text>"#, digits(ratio), x = to + 6.0));
        }
    }
    let (height, one) = (y + LINE, at(1.0));
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" font-family="sans-serif" font-size="13" fill="currentColor" role="img">
<title>soloist beside its peers and floors</title>
<style>@media (prefers-color-scheme: dark) {{ svg:root {{ color: #ddd; background: #222 }} }}</style>
<text x="{LEFT}" y="{LINE}">Times the floor. Orange: soloist. Pale: protects nothing.</text>
<path d="M{one:.1} {top} V{height}" stroke="currentColor" opacity=".4"/>
{lines}</svg>
"#,
        top = 1.5 * LINE
    )
}

/// Without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace('`', "")
}
