//! Numbers as people read them.

/// Events in a second: `0`, `0.4`, `12`, `1,234`.
pub(super) fn rate(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        "0".to_owned()
    } else if value < 0.05 {
        "<0.1".to_owned()
    } else if value < 9.95 {
        format!("{value:.1}")
    } else {
        thousands(value.round() as u64)
    }
}

/// A duration in milliseconds: `<1 ms`, `12 ms`, `1.2 s`.
pub(super) fn milliseconds(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value < 1.0 => "<1 ms".to_owned(),
        Some(value) if value < 999.5 => format!("{value:.0} ms"),
        Some(value) if value < 99_950.0 => format!("{:.1} s", value / 1_000.0),
        Some(value) => format!("{} s", thousands((value / 1_000.0).round() as u64)),
    }
}

/// A count with separated thousands.
pub(super) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes: `512 B`, `3.4 KiB`, `12 MiB`.
pub(super) fn bytes(value: u64) -> String {
    let mut size = value as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if size < 1_024.0 {
            break;
        }
        size /= 1_024.0;
        unit = next;
    }
    if unit == "B" || size >= 9.95 { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") }
}

/// A span of time by its two largest units: `45 s`, `12 min`, `3 h 5 min`, `41 d 2 h`.
pub(super) fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min"),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A share of one: `0 %`, `<1 %`, `34 %`.
pub(super) fn share(value: f64) -> String {
    let percent = value.clamp(0.0, 1.0) * 100.0;
    if percent > 0.0 && percent < 1.0 { "<1 %".to_owned() } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [0.0, 0.01, 0.44, 9.94, 9.96, 1_234_567.4, f64::NAN].map(rate),
            ["0", "<0.1", "0.4", "9.9", "10", "1,234,567", "0"]
        );
        assert_eq!(
            [None, Some(0.2), Some(12.4), Some(999.9), Some(61_000.0), Some(1e6)].map(milliseconds),
            ["–", "<1 ms", "12 ms", "1.0 s", "61.0 s", "1,000 s"]
        );
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1_023, 1_536, 10 << 20].map(bytes), ["0 B", "1023 B", "1.5 KiB", "10 MiB"]);
        assert_eq!([5, 60, 3_700, 3_549_600].map(span), ["5 s", "1 min", "1 h 1 min", "41 d 2 h"]);
        assert_eq!([0.0, 0.004, 0.335, 1.7].map(share), ["0 %", "<1 %", "34 %", "100 %"]);
    }
}
