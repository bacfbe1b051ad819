use std::time::{Duration, Instant};

use super::steps::ask;
use super::*;

/// The time that snapshots take of a stream of many names, when so many types wait for a secret.
fn time(types: usize) -> Duration {
    let of_edition = |edition: &str| snapshot(&[(SDS, "s", "1"), (CDS, "c", edition)]);
    let mut stream = Encoded::new(of_edition("1"));
    let names: Vec<_> = (0..10_000).map(|number| number.to_string()).collect();
    // Neither is answered.
    stream.on_request(ask(EDS, &["0"]));
    stream.on_request(ask(SDS, &["s"]));
    stream.on_request(ask(EDS, &names.iter().map(String::as_str).collect::<Vec<_>>()));
    for number in 0..types {
        let mut request = ask(&format!("type.googleapis.com/other-{number}"), &[]);
        request.initial_resource_versions = [("gone".to_owned(), "1".to_owned())].into();
        assert!(stream.on_request(request).is_empty(), "it waits");
    }
    let turn = |edition: String| {
        let (newer, start) = (of_edition(&edition), Instant::now());
        assert!(stream.on_snapshot(newer).is_empty());
        start.elapsed()
    };
    (2..6).map(|edition| edition.to_string()).map(turn).min().unwrap()
}

#[test]
fn types_that_wait_cost_one_look_at_what_they_wait_for() {
    let (one, many) = (time(1), time(29));
    assert!(many < one * 8, "{many:?} for 29 types, {one:?} for one");
}
