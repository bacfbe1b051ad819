//! Numbers in cells of a table.

/// A rate or another number in a second.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.01 => "<0.01".to_owned(),
        rate if rate < 10.0 => format!("{rate:.2}"),
        rate if rate < 1_000.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

/// A duration in milliseconds, if there is one.
pub(super) fn duration(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "-".to_owned(),
        Some(time) if time < 10.0 => format!("{time:.1}ms"),
        Some(time) if time < 1_000.0 => format!("{time:.0}ms"),
        Some(time) => format!("{:.1}s", time / 1_000.0),
    }
}

/// A part of one.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0}%", 100.0 * part)
}

/// A number of bytes.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(super) fn bytes(count: u64) -> String {
    let (mut amount, mut units) = (count as f64, ["B", "KiB", "MiB", "GiB", "TiB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if amount < 1_024.0 {
            break;
        }
        amount /= 1_024.0;
        unit = larger;
    }
    if unit == "B" { format!("{count} B") } else { format!("{amount:.1} {unit}") }
}

/// An age in seconds.
pub(super) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
