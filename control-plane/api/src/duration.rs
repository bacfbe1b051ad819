use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is empty, has no unit, or has one that is not known.
    #[error("not a duration: write it as 75s, 1m30s or 500ms")]
    Syntax,
    /// The duration does not fit.
    #[error("the duration is too long")]
    Overflow,
}

const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration as Go's `time.ParseDuration` writes it, without signs and without `µs`.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u64 = 0;
    if rest.is_empty() {
        return Err(DurationError::Syntax);
    }
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, after) = split_where(after, |c| c.is_ascii_digit() || c == '.');
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
        let part = scaled(number, scale.ok_or(DurationError::Syntax)?)?;
        nanos = nanos.checked_add(part).ok_or(DurationError::Overflow)?;
        rest = after;
    }
    Ok(Duration::from_nanos(nanos))
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

fn scaled(number: &str, scale: u64) -> Result<u64, DurationError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(DurationError::Syntax);
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::Overflow)? };
    let mut total = whole.checked_mul(scale).ok_or(DurationError::Overflow)?;
    let mut unit = scale;
    for digit in fraction.chars().filter_map(|c| c.to_digit(10)) {
        unit /= 10;
        total = total.checked_add(unit * u64::from(digit)).ok_or(DurationError::Overflow)?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in
            [("75s", 75_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("500ms", 500), ("0", 0), (".5s", 500)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "75", "s", "1d", "-1s", "1s ", " 1s", "1.2.3s", ".s", "1µs"] {
            assert_eq!(parse_duration(text), Err(DurationError::Syntax), "{text}");
        }
        for text in ["99999999999h", "99999999999999999999s"] {
            assert_eq!(parse_duration(text), Err(DurationError::Overflow), "{text}");
        }
    }
}
