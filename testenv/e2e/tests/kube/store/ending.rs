use std::process::Command;
use std::time::{Duration, Instant};

use portcullis_harness::process::Signal;
use portcullis_harness::{deps, wait};

use super::fixture::{LaidOut, START, Store, portcullis};

/// The error of `init --apply`, which waits four minutes for a server that does not come; and how long it took.
fn failing_apply(store: &Store) -> (String, Duration) {
    let begin = Instant::now();
    let arguments = ["init", "--data-dir", store.dir.to_str().unwrap(), "--apply", "--timeout", "4m"];
    let output = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{text}");
    (text, begin.elapsed())
}

/// A kube-apiserver that refuses a flag, and an etcd that is stopped: their last lines are shown.
#[test]
fn servers_that_have_ended_are_named_with_their_last_lines() {
    let Some(laid_out) = LaidOut::new("store-ended", 1, &["--kube-apiserver-flag=--no-such-flag"]) else { return };
    laid_out.init(&[]);
    let mut store = laid_out.start();
    let (text, took) = failing_apply(&store);
    println!("noticed after {:.1} s: {text}", took.as_secs_f64());
    assert!(text.contains("kube-apiserver has ended. Its last lines:"), "{text}");
    assert!(text.contains("unknown flag: --no-such-flag"), "{text}");
    assert!(took < Duration::from_secs(60), "{took:?}");

    portcullis(&["init", "--data-dir", store.dir.to_str().unwrap(), "--forget", "kube-apiserver-flag"]);
    store.members[0].restart_apiserver();
    store.apply_all();
    let ended = store.first().dir.join("run/kube-apiserver.ended");
    assert!(!ended.exists(), "the last lines of an earlier run are gone");

    store.members[0].etcd.signal(Signal::Term).unwrap();
    let (text, _) = failing_apply(&store);
    assert!(text.contains("etcd has ended. Its last lines:"), "{text}");
    store.members[0].restart_etcd();
    let again = || {
        let arguments = ["init", "--data-dir", store.dir.to_str().unwrap(), "--apply"];
        let output = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
        output.status.success().then_some(())
    };
    wait::until("the store takes objects again", START, again).unwrap();
}
