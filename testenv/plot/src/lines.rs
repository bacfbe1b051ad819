use std::fmt::Write;

use crate::page::{Color, GAP, GRID, LEFT, WIDTH, label, legend, open};

const HEIGHT: f64 = 150.0;
/// The marks on the axis of time.
const STEPS: u32 = 6;

/// A line of a panel: points of time and level.
#[derive(Clone, Debug)]
pub struct Line {
    /// Of the legend.
    pub color: Color,
    /// In the order of time. A level that is no number leaves a gap.
    pub points: Vec<(f64, f64)>,
}

/// Lines with one scale.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The subject of its lines.
    pub title: String,
    /// The level at its upper edge; higher ones are cut.
    pub top: f64,
    /// The lines, the last one in front.
    pub lines: Vec<Line>,
}

/// Panels below each other, over the same time from 0 on.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The colours' names.
    pub legend: Vec<(Color, String)>,
    /// The end of the time.
    pub span: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Times that are marked in each panel.
    pub marks: Vec<(f64, String)>,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

impl Lines {
    /// The picture.
    pub fn picture(&self) -> String {
        let height = (HEIGHT + GAP) * self.panels.len() as f64 + GAP;
        let mut text = open(height);
        legend(&self.legend, &mut text);
        for (at, panel) in self.panels.iter().enumerate() {
            self.draw(panel, GAP + (HEIGHT + GAP) * at as f64, &mut text);
        }
        text + "</svg>\n"
    }

    fn draw(&self, panel: &Panel, y: f64, text: &mut String) {
        let right = WIDTH - 20.0;
        label(LEFT, y - 6.0, "start", &panel.title, text);
        for part in [0.0, 0.5, 1.0] {
            let at = y + HEIGHT - HEIGHT * part;
            _ = writeln!(text, "<path d=\"M{LEFT} {at}H{right}\" stroke=\"{GRID}\"/>");
            label(LEFT - 6.0, at + 4.0, "end", &scale(panel.top * part, panel.top), text);
        }
        for step in 0..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let time = format!("{:.0} {}", self.span * part, self.unit);
            label(LEFT + (right - LEFT) * part, y + HEIGHT + 14.0, "middle", &time, text);
        }
        for (time, name) in &self.marks {
            let x = LEFT + (right - LEFT) * time / self.span;
            let code = Color::Red.code();
            _ = writeln!(text, "<path d=\"M{x:.1} {y}v{HEIGHT}\" stroke=\"{code}\" stroke-dasharray=\"3 3\"/>");
            label(x + 4.0, y + 12.0, "start", name, text);
        }
        for line in &panel.lines {
            let mut path = String::new();
            let mut is_pen_up = true;
            for (time, level) in &line.points {
                if !level.is_finite() {
                    is_pen_up = true;
                    continue;
                }
                let x = LEFT + (right - LEFT) * time / self.span;
                let at = y + HEIGHT - HEIGHT * (level / panel.top).min(1.05);
                _ = write!(path, "{}{x:.1} {at:.1}", if is_pen_up { "M" } else { "L" });
                is_pen_up = false;
            }
            _ = writeln!(text, "<path d=\"{path}\" fill=\"none\" stroke=\"{}\"/>", line.color.code());
        }
    }
}

/// As many digits as the scale has a use for.
fn scale(level: f64, top: f64) -> String {
    let digits = if top < 10.0 { 2 } else { usize::from(top < 100.0) };
    format!("{level:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::{Line, Lines, Panel};
    use crate::page::Color;

    #[test]
    fn gap_in_a_line_lifts_the_pen() {
        let points = vec![(0.0, 0.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 2.0)];
        let panel = Panel { title: "a < b".to_owned(), top: 2.0, lines: vec![Line { color: Color::Blue, points }] };
        let lines =
            Lines { legend: Vec::new(), span: 3.0, unit: "s", marks: vec![(1.0, "x".to_owned())], panels: vec![panel] };
        let picture = lines.picture();
        let path = picture.lines().find(|line| line.contains("#0969da")).unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(path.contains("M60.0 196.0L353.3 121.0M940.0 46.0"), "{path}");
        assert!(picture.contains("a &lt; b") && picture.ends_with("</svg>\n"), "{picture}");
    }
}
