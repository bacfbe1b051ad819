//! The ABI from the other side: a stand-in for Envoy drives a filter that uses everything of it. Under Miri (`make miri`) this
//! shows that no pointer is used after its time, whenever streams end and hooks panic.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod callbacks;
mod envoy;
mod module;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use envoy::{ALIVE, Config, Stream, Worker};
use envoy_abi::cert_validator;
use envoy_abi::raw::Buffer;
use module::{Module, Validator};

const CONTINUE: u32 = 0;
const STOP: u32 = 1;
const WAIT: u32 = 4;

/// Schedulers are counted in the process: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    std::panic::set_hook(Box::new(|_| {}));
    let guard = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    ALIVE.store(0, Ordering::Release);
    guard
}

fn config() -> Config {
    Config::new(b"filter", b"body", b"route").unwrap()
}

/// The module's side of a configuration.
#[allow(unsafe_code, reason = "looks into the module")]
fn module(config: &Config) -> &Module {
    // SAFETY: made by the ABI for this type, and alive as long as the configuration.
    unsafe { &*config.module.cast::<Module>() }
}

fn waiting(worker: &Worker<'_>, then: &str) -> Arc<Stream> {
    let stream = worker.stream(&[(":path", "/waits"), ("then", then)]);
    assert_eq!(stream.request_headers(), Some(WAIT));
    stream
}

#[test]
fn headers_are_read_and_changed_however_many_there_are() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    // 48 are read without an allocation.
    for count in [0, 45, 46, 47] {
        let names: Vec<String> = (0..count).map(|number| format!("x-{number}")).collect();
        let mut lines: Vec<(&str, &str)> = vec![(":path", "/"), ("empty", "")];
        lines.extend(names.iter().map(|name| (name.as_str(), "value")));
        let stream = worker.stream(&lines);
        assert_eq!(stream.request_headers(), Some(CONTINUE));
        assert_eq!(stream.request_body(), Some(CONTINUE));
        assert_eq!(stream.request_trailers(), Some(CONTINUE));
        assert_eq!(stream.response_headers(), Some(CONTINUE));
        let left: Vec<_> = stream.lines(0).iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
        assert_eq!(left, [":path", "empty", "user", "group", "group"]);
        assert!(stream.lines(1).is_empty());
        stream.end();
        assert!(stream.saw("counted 1 of one/two"));
    }
}

#[test]
fn message_that_cannot_be_read_ends_the_stream() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    let stream = worker.stream(&[(":path", "/")]);
    stream.lose(0);
    assert_eq!(stream.request_headers(), Some(STOP));
    assert!(stream.saw("reset: unreadable") && !stream.is_alive());
    let stream = worker.stream(&[(":path", "/")]);
    stream.request_headers();
    stream.lose(1);
    assert_eq!(stream.request_trailers(), Some(STOP));
    stream.end();
}

#[test]
fn reply_destroys_the_stream_within_the_hook() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    let stream = worker.stream(&[(":path", "/refused")]);
    assert_eq!(stream.request_headers(), Some(STOP));
    assert!(stream.saw("403 with 34 bytes of headers, 2 of body"), "{:?}", stream.seen);
    assert!(!stream.saw("continued") && !stream.is_alive());
}

#[test]
fn stream_that_waits_is_woken_from_another_thread() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    for (then, seen) in [("", "continued"), ("reset", "reset: gone"), ("finish", "finished"), ("drain", "drained")] {
        let stream = waiting(&worker, then);
        let schedulers = std::mem::take(&mut *module(&config).waiting.lock().unwrap());
        std::thread::spawn(move || schedulers.iter().for_each(envoy_abi::http::StreamScheduler::wake)).join().unwrap();
        worker.run();
        assert!(stream.saw(seen), "{then}: {:?}", stream.seen);
        stream.end();
    }
    assert_eq!(ALIVE.load(Ordering::Acquire), 1, "the configuration's own scheduler is left");
}

#[test]
fn span_of_a_wait_ends_with_its_stream_at_the_latest() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    let untraced = waiting(&worker, "");
    assert!(!untraced.seen.lock().unwrap().iter().any(|seen| seen.starts_with("span") || seen.starts_with("child")));
    untraced.end();
    let traced = worker.stream(&[(":path", "/waits"), ("traced", "yes")]);
    traced.request_headers();
    for seen in ["child wait", "span waits", "tag a=b", "tag ids=0123456789abcdef0123456789abcdef 0123456789abcdef"] {
        assert!(traced.saw(seen), "{seen}: {:?}", traced.seen);
    }
    assert!(!traced.saw("child ended"));
    traced.end();
    assert!(traced.saw("child ended"));
    module(&config).waiting.lock().unwrap().clear();
    assert_eq!((Arc::strong_count(&traced), ALIVE.load(Ordering::Acquire)), (1, 1));
}

#[test]
fn stream_that_is_gone_is_woken_in_vain() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    // Before the wake, between the wake and its delivery, and together with everything that Envoy had of it.
    let early = waiting(&worker, "");
    early.end();
    let late = waiting(&worker, "");
    let forgotten = waiting(&worker, "");
    forgotten.end();
    drop(forgotten);
    let schedulers = std::mem::take(&mut *module(&config).waiting.lock().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| schedulers.iter().for_each(envoy_abi::http::StreamScheduler::wake));
    });
    late.end();
    worker.run();
    drop(schedulers);
    assert!(!early.saw("continued") && !late.saw("continued"));
}

#[test]
fn waking_races_with_the_end_of_streams() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    let rounds = if cfg!(miri) { 4 } else { 200 };
    for _ in 0..rounds {
        let streams: Vec<_> = (0..8).map(|_| waiting(&worker, "")).collect();
        let schedulers = std::mem::take(&mut *module(&config).waiting.lock().unwrap());
        std::thread::scope(|scope| {
            let mut schedulers = schedulers.into_iter();
            for _ in 0..2 {
                let some: Vec<_> = schedulers.by_ref().take(4).collect();
                scope.spawn(move || some.into_iter().for_each(|scheduler| scheduler.wake()));
            }
            // This thread is the worker: streams end and events are delivered here.
            streams.iter().step_by(2).for_each(|stream| stream.end());
            worker.run();
        });
        worker.run();
        let continued = streams.iter().filter(|stream| stream.saw("continued")).count();
        assert_eq!(continued, 4);
    }
    assert_eq!(ALIVE.load(Ordering::Acquire), 1);
}

#[test]
fn streams_of_a_group_are_woken_on_their_worker() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    let joined = |worker: &Worker<'_>, group: &str, more: (&str, &str)| {
        let stream = worker.stream(&[(":path", "/waits"), ("joins", group), more]);
        assert_eq!(stream.request_headers(), Some(if more.0 == "panics" { STOP } else { WAIT }));
        stream
    };
    let meant = [joined(&worker, "1", ("then", "")), joined(&worker, "1", ("then", "reset"))];
    let others = [joined(&worker, "2", ("then", "")), waiting(&worker, "")];
    // Before the wake, by a panic, and between the wake and its delivery.
    let (early, late) = (joined(&worker, "1", ("then", "")), joined(&worker, "1", ("then", "")));
    early.end();
    let poisoned = joined(&worker, "1", ("panics", "request"));
    let waking = || {
        assert_eq!(
            worker.stream(&[(":path", "/refused"), ("joins", "1"), ("wakes", "1")]).request_headers(),
            Some(STOP)
        );
    };
    std::thread::scope(|scope| {
        let elsewhere = || {
            let worker = config.worker(true);
            let waking = worker.stream(&[(":path", "/refused"), ("wakes", "1")]);
            assert_eq!(waking.request_headers(), Some(STOP));
            worker.run();
        };
        scope.spawn(elsewhere).join().unwrap();
    });
    worker.run();
    assert!(!meant[0].saw("continued"), "another worker's streams are left alone");
    waking();
    late.end();
    worker.run();
    assert!(meant[0].saw("continued") && meant[1].saw("reset: gone"));
    assert!(![&others[0], &others[1], &early, &late, &poisoned].iter().any(|stream| stream.saw("continued")));
    meant.iter().chain(&others).for_each(|stream| stream.end());
    module(&config).waiting.lock().unwrap().clear();
    waking();
    assert_eq!(ALIVE.load(Ordering::Acquire), 1);
}

#[test]
fn panic_fails_closed_at_every_place() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    let stream = worker.stream(&[(":path", "/"), ("panics", "request")]);
    assert_eq!(stream.request_headers(), Some(STOP));
    assert!(stream.saw("500 with 0 bytes of headers, 8 of body") && !stream.is_alive());
    let stream = worker.stream(&[(":path", "/waits"), ("panics", "resumed")]);
    stream.request_headers();
    module(&config).waiting.lock().unwrap().drain(..).for_each(|scheduler| scheduler.wake());
    worker.run();
    assert!(stream.saw("500 with 0 bytes of headers, 8 of body") && !stream.saw("continued"));
    let stream = worker.stream(&[(":path", "/"), ("panics", "response")]);
    assert_eq!((stream.request_headers(), stream.response_headers()), (Some(CONTINUE), Some(STOP)));
    let stream = worker.stream(&[(":path", "/body-panics")]);
    stream.request_headers();
    assert_eq!((stream.request_body(), stream.is_alive()), (Some(3), false), "the body stays here");
    assert!(stream.saw("500 with 0 bytes of headers, 8 of body"));
    let stream = worker.stream(&[(":path", "/"), ("panics", "complete")]);
    stream.request_headers();
    stream.end();
    assert!(!stream.is_alive());
}

#[test]
fn answers_of_callouts_come_whole_or_not_at_all() {
    let _alone = alone();
    let config = config();
    let worker = config.worker(true);
    let stream = waiting(&worker, "");
    config.run_main();
    assert_eq!(config.posted().callouts.lock().unwrap().len(), 1);
    config.answer(0, Some(b"a good answer"));
    worker.run();
    assert!(stream.saw("continued"));
    config.answer(1, Some(b""));
    config.answer(2, None);
    config.answer(3, Some(b"panics"));
    let answers = module(&config).answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let seen: Vec<_> = answers.iter().map(|(id, status, body, gave_up)| (*id, *status, body.len(), *gave_up)).collect();
    // After a panic the answer is taken once more, as none.
    assert_eq!(seen, [(0, 201, 13, false), (1, 201, 0, false), (2, 0, 0, true), (3, 201, 6, false), (3, 0, 0, false)]);
}

#[test]
fn configuration_that_is_refused_or_panics_leaves_nothing() {
    let _alone = alone();
    assert!(Config::new(b"filter", b"refused", b"").is_none());
    assert!(Config::new(b"filter", b"panics", b"").is_none());
    drop(config());
    assert_eq!(ALIVE.load(Ordering::Acquire), 0);
}

#[test]
#[allow(unsafe_code, reason = "the other side of the ABI")]
fn certificate_chains_are_judged_and_a_panic_refuses_them() {
    let _alone = alone();
    let (name, body) = (Buffer::lend(b"validator"), Buffer::lend(b"digest"));
    // SAFETY: as Envoy calls them.
    unsafe {
        assert!(cert_validator::config_new::<Validator>(name, Buffer::EMPTY).is_null());
        let validator = cert_validator::config_new::<Validator>(name, body);
        let judge = |chain: &[&[u8]]| {
            let chain: Vec<Buffer> = chain.iter().map(|certificate| Buffer::lend(certificate)).collect();
            let nobody = std::ptr::null_mut();
            cert_validator::verify::<Validator>(nobody, validator, chain.as_ptr(), chain.len()).status
        };
        let verdicts = [&[&[0, 1][..], &[2]][..], &[&[1]], &[], &[b"panics"]].map(judge);
        assert_eq!(verdicts, [0, 1, 1, 1]);
        let none = cert_validator::verify::<Validator>(std::ptr::null_mut(), validator, std::ptr::null(), 3);
        assert_eq!((none.status, none.has_tls_alert), (1, true));
        let mut out = Buffer::EMPTY;
        cert_validator::update_digest::<Validator>(validator, &raw mut out);
        assert_eq!(out.bytes(), b"digest");
        cert_validator::config_destroy::<Validator>(validator);
    }
}
