//! The question whether a virtual host is still the one that was met.

use portcullis_core::exchange::Next;
use portcullis_filter_config::names;

use super::host::Fake;
use super::requests::{ca, digest_of, judge, named, request, vm};
use crate::vm::Vm;

/// The attribute under a digest.
fn mark(text: &[u8]) -> String {
    format!("{}\0{}", names::wasm::OF_METADATA, String::from_utf8(digest_of(text)).unwrap())
}

/// Has Envoy choose a virtual host with this text, and with marks of these texts.
fn choose(host: &Fake, text: &[u8], marks: &[(&[u8], &[u8])]) {
    let mut state = host.state();
    state.properties.retain(|path, _| !path.starts_with(names::wasm::OF_METADATA));
    state.properties.insert(names::wasm::CONFIG.to_owned(), text.to_vec());
    state.properties.insert(names::wasm::DIGEST.to_owned(), digest_of(text));
    state.properties.extend(marks.iter().map(|(of, value)| (mark(of), value.to_vec())));
}

/// The cluster that judged a request with this authority, by the name that it answers to.
fn judged(host: &Fake, vm: &mut Vm<Fake>, authority: &str, stream: u32) -> (Next, Vec<String>) {
    request(host, None, &[]);
    for (name, value) in &mut host.state().headers {
        if name == ":authority" {
            authority.clone_into(value);
        }
    }
    host.state().asked.clear();
    let next = judge(vm, stream);
    let asked = host.state().asked.iter().filter(|path| path.starts_with(names::wasm::OF_METADATA)).cloned().collect();
    (next, asked)
}

#[test]
fn virtual_host_that_has_its_mark_is_not_read_again() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    let text = named(&ca, "prod");
    choose(&host, &text, &[(&text, b"")]);
    let whole = [names::wasm::DIGEST.to_owned(), mark(&text), names::wasm::CONFIG.to_owned()];
    assert_eq!(judged(&host, &mut vm, "prod", 2), (Next::Continue, whole.to_vec()));
    assert_eq!(judged(&host, &mut vm, "prod", 3), (Next::Continue, vec![mark(&text)]));
}

/// The virtual host that Envoy chose decides, whatever was met under that name before: another cluster answers 421.
#[test]
fn virtual_host_of_another_cluster_is_never_taken_for_it() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    let (ours, others) = (named(&ca, "prod"), named(&ca, "other"));
    for (number, marks) in (10..).step_by(10).zip([
        vec![(&others[..], &b""[..])],
        // Without a mark, and with what a VM does not take for one.
        vec![],
        vec![(&others, b""), (&ours, b"x")],
    ]) {
        choose(&host, &ours, &[(&ours, b"")]);
        assert_eq!(judged(&host, &mut vm, "prod", number).0, Next::Continue);
        choose(&host, &others, &marks);
        assert_eq!(judged(&host, &mut vm, "prod", number + 1).0, Next::Stop, "{number}");
        assert_eq!(host.state().replies.first().map(|(code, _)| *code), Some(421));
        assert_eq!(judged(&host, &mut vm, "other", number + 2).0, Next::Continue);
    }
}

/// A client chooses the host name, headers and what other filters make of them. No part of an attribute's name is theirs.
#[test]
fn name_that_a_client_sends_is_part_of_no_question() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    let (ours, others) = (named(&ca, "prod"), named(&ca, "other"));
    let forged = String::from_utf8(digest_of(&others)).unwrap();
    choose(&host, &others, &[(&others, b"")]);
    assert_eq!(judged(&host, &mut vm, "other", 2).0, Next::Continue, "it is known");
    choose(&host, &ours, &[(&ours, b"")]);
    host.state().properties.insert(format!("metadata\0filter_metadata\0portcullis\0{forged}"), Vec::new());
    host.state().filter_state.insert(forged.clone(), Vec::new());
    let known = [names::wasm::DIGEST.to_owned(), names::wasm::CONFIG.to_owned(), mark(&ours), mark(&others)];
    for (number, authority) in (10..).zip([&*forged, &*mark(&others), "\0config", "", "prod\0", "other", "prod"]) {
        let (next, asked) = judged(&host, &mut vm, authority, number);
        assert!(asked.iter().all(|path| known.contains(path)), "{asked:?}");
        let expected = if authority == "prod" { Next::Continue } else { Next::Stop };
        assert_eq!(next, expected, "{authority:?}: by our cluster, which has one name");
    }
}
