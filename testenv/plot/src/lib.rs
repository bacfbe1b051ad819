//! Pictures of measurements (SVG): lines over time, and bars beside each other.

mod bars;
mod lines;
mod page;

pub use bars::{Bar, Bars};
pub use lines::{Line, Lines, Panel};
pub use page::Color;
