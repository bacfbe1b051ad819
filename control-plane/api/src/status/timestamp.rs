use std::fmt::{self, Display};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

const DAY: u64 = 86_400;

/// A point in time as Kubernetes writes it: RFC 3339 in UTC, whole seconds. It is text, because little is calculated with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(String);

impl Timestamp {
    /// From seconds since 1970; what lies behind the year 9999 is its end.
    pub fn from_seconds(seconds: u64) -> Self {
        let seconds = seconds.min(253_402_300_799);
        let (year, month, day) = date(seconds / DAY);
        let of_day = seconds % DAY;
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        Self(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
    }
}

impl Timestamp {
    /// Seconds since 1970; `None` if it is not written as here.
    pub fn seconds(&self) -> Option<u64> {
        let (date, time) = self.0.strip_suffix('Z')?.split_once('T')?;
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time, ':')?;
        let is_date = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
        (is_date && hour < 24 && minute < 60 && second <= 60)
            .then(|| days(year, month, day) * DAY + hour * 3_600 + minute * 60 + second)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self::from_seconds(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse::<u16>().map(u64::from));
    let numbers = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    parts.next().is_none().then_some(numbers)
}

/// The number of days from 1970-01-01 to a date, as [`date`] counts them.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Year, month and day of a number of days since 1970-01-01, counted in years that begin in March, so that the day that is
/// not in every year is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    // 1970-01-01 is 719,468 days after 0000-03-01; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_what_kubernetes_writes() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, text) in table {
            assert_eq!(Timestamp::from_seconds(seconds).to_string(), text);
            assert_eq!(Timestamp(text.to_owned()).seconds(), Some(seconds.min(253_402_300_799)));
        }
    }

    #[test]
    fn text_that_is_not_of_this_form_has_no_seconds() {
        for text in [
            "",
            "2026-01-01",
            "2026-13-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01T00:00:00.5Z",
        ] {
            assert_eq!(Timestamp(text.to_owned()).seconds(), None, "{text}");
        }
    }
}
