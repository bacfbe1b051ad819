//! The common parts of all pictures: size, colours, legend.

use std::fmt::Write;

pub(crate) const WIDTH: f64 = 960.0;
pub(crate) const LEFT: f64 = 60.0;
pub(crate) const GAP: f64 = 46.0;
pub(crate) const INK: &str = "#57606a";
pub(crate) const GRID: &str = "#d0d7de";

/// A colour, each of which can be distinguished from the others on white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// For limits and marks.
    Red,
    /// For what is compared with.
    Gray,
    /// For the product.
    Blue,
    /// For a second line.
    Orange,
    /// For a third line.
    Green,
}

impl Color {
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Color::Red => "#cf222e",
            Color::Gray => "#8c959f",
            Color::Blue => "#0969da",
            Color::Orange => "#bc4c00",
            Color::Green => "#1a7f37",
        }
    }
}

/// The beginning of a picture of that height, on white.
pub(crate) fn open(height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    )
}

/// A name for each colour, side by side at the top.
pub(crate) fn legend(names: &[(Color, String)], text: &mut String) {
    for (at, (color, name)) in names.iter().enumerate() {
        let x = LEFT + 190.0 * at as f64;
        _ = writeln!(text, "<path d=\"M{x} 16h24\" stroke=\"{}\" stroke-width=\"2\"/>", color.code());
        label(x + 30.0, 20.0, "start", name, text);
    }
}

/// A text at a place; `anchor` is SVG's `text-anchor`.
pub(crate) fn label(x: f64, y: f64, anchor: &str, words: &str, text: &mut String) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    _ = writeln!(text, "<text x=\"{x:.0}\" y=\"{y:.0}\" fill=\"{INK}\" text-anchor=\"{anchor}\">{words}</text>");
}
