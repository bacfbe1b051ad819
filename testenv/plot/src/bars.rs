use std::fmt::Write;

use crate::page::{Color, GAP, WIDTH, label, legend, open};

/// The place for names.
const NAMES: f64 = 330.0;
/// The place for figures behind the longest bar.
const FIGURES: f64 = 90.0;
const ROW: f64 = 22.0;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// In front of it.
    pub name: String,
    /// Of the legend.
    pub color: Color,
    /// Its length.
    pub level: f64,
    /// Behind it.
    pub figure: String,
}

/// Bars with one scale.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The subject of all bars.
    pub title: String,
    /// The colours' names.
    pub legend: Vec<(Color, String)>,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// The picture.
    pub fn picture(&self) -> String {
        let mut text = open(GAP + 20.0 + ROW * self.bars.len() as f64 + 10.0);
        legend(&self.legend, &mut text);
        label(20.0, GAP + 4.0, "start", &self.title, &mut text);
        let most = self.bars.iter().fold(f64::MIN_POSITIVE, |most, bar| most.max(bar.level));
        for (at, bar) in self.bars.iter().enumerate() {
            let y = GAP + 20.0 + ROW * at as f64;
            let length = (WIDTH - NAMES - FIGURES) * bar.level.max(0.0) / most;
            label(NAMES - 8.0, y + 12.0, "end", &bar.name, &mut text);
            let code = bar.color.code();
            _ = writeln!(
                text,
                "<rect x=\"{NAMES}\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"16\" fill=\"{code}\"/>"
            );
            label(NAMES + length + 6.0, y + 12.0, "start", &bar.figure, &mut text);
        }
        text + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::{Bar, Bars};
    use crate::page::Color;

    #[test]
    fn longest_bar_has_the_whole_width() {
        let bar = |level: f64| Bar { name: String::new(), color: Color::Gray, level, figure: format!("{level}") };
        let picture = Bars { title: String::new(), legend: Vec::new(), bars: vec![bar(2.0), bar(1.0)] }.picture();
        assert!(picture.contains("width=\"540.0\"") && picture.contains("width=\"270.0\""), "{picture}");
    }
}
