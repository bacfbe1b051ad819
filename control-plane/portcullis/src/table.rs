//! Tables as kubectl prints them.

use std::fmt::Write;

/// Spaces between columns, as kubectl has them.
const GAP: usize = 3;

/// Columns as wide as their widest cell; nothing behind the last one. `numbers` are the columns that end at the same place.
pub(crate) fn aligned(rows: &[Vec<String>], numbers: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut written = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = match numbers.contains(&column) {
                true => write!(written, "{cell:>width$}{:GAP$}", ""),
                false => write!(written, "{cell:<width$}{:GAP$}", ""),
            };
        }
        text.push_str(written.trim_end());
        text.push('\n');
    }
    text
}
