//! Status codes that count apart. An upstream may answer with any number.

/// The status as it is counted: itself if kube-apiserver, Envoy or the gateway answer with it, else the first digit of its
/// class. 0 is no answer.
pub(super) const fn reported(status: u16) -> u16 {
    match status {
        0
        | 101
        | 200..=202
        | 204
        | 206
        | 301
        | 302
        | 304
        | 307
        | 308
        | 400
        | 401
        | 403..=406
        | 408..=410
        | 412..=415
        | 421
        | 422
        | 426
        | 429
        | 431
        | 500..=504
        | 508 => status,
        100..=599 => status / 100,
        // RFC 9110, section 15: what has no class is treated as a server's error.
        _ => 5,
    }
}

/// The first digit of a reported status, 0 for no answer.
pub(super) const fn class(reported: u16) -> u16 {
    if reported < 100 { reported } else { reported / 100 }
}

/// The label `code` of a reported status.
pub(super) fn label(reported: u16) -> String {
    if matches!(reported, 1..=99) { format!("{reported}xx") } else { reported.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_outside_of_the_closed_set_counts_by_its_class() {
        let table = [
            (0, "0", 0),
            (101, "101", 1),
            (103, "1xx", 1),
            (200, "200", 2),
            (299, "2xx", 2),
            (418, "4xx", 4),
            (429, "429", 4),
            (508, "508", 5),
            (599, "5xx", 5),
            (7, "5xx", 5),
            (999, "5xx", 5),
            (u16::MAX, "5xx", 5),
        ];
        for (status, expected, first) in table {
            assert_eq!((label(reported(status)).as_str(), class(reported(status))), (expected, first), "{status}");
        }
        let labels: std::collections::BTreeSet<_> = (0..=u16::MAX).map(|status| label(reported(status))).collect();
        assert_eq!(labels.len(), 41, "{labels:?}");
    }
}
