use super::host::Fake;
use portcullis_core::exchange::Next;

use super::requests::{ca, judge, request, vm};

const STREAM: u32 = 10;

/// The outcome of a request with these trailers, and those that go on.
fn sends(trailers: &[&str], sticks: Option<&str>) -> (Next, Vec<String>, u32) {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    request(&host, None, &[]);
    assert_eq!(judge(&mut vm, STREAM), Next::Continue);
    let mut state = host.state();
    state.trailers = trailers.iter().map(|name| ((*name).to_owned(), "root".to_owned())).collect();
    state.sticks = sticks.map(str::to_owned);
    drop(state);
    let next = vm.request_trailers(STREAM);
    let state = host.state();
    (next, state.trailers.iter().map(|(name, _)| name.clone()).collect(), state.closed)
}

#[test]
fn reserved_trailers_are_removed_and_others_go_on() {
    let clean = (Next::Continue, vec!["checksum".to_owned()], 0);
    assert_eq!(sends(&["checksum"], None), clean);
    assert_eq!(sends(&["impersonate-user", "checksum", "x_remote_group"], None), clean);
}

#[test]
fn trailers_stop_where_a_reserved_one_stays() {
    let (next, kept, closed) = sends(&["x-remote-user", "impersonate-user"], Some("impersonate-user"));
    assert_eq!((next, closed), (Next::Stop, 1), "{kept:?}");
}

#[test]
fn trailers_stop_where_no_request_was_judged() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    host.state().trailers = vec![("impersonate-user".to_owned(), "root".to_owned())];
    assert_eq!(vm.request_trailers(STREAM), Next::Stop);
}
