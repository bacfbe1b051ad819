use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, H2Client};
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::fixture::{LaidOut, START, Store};

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: [(&str, &[u8]); 1] = [("content-type", b"application/json")];
/// Writers, each with one write at a time.
const WRITERS: usize = 64;

/// Names of objects whose creation a server has answered with 201, and the time until the fault.
pub(super) struct Writes {
    pub(super) acknowledged: BTreeSet<String>,
    pub(super) sent: usize,
    pub(super) took: Duration,
}

pub(super) fn create(client: &H2Client, name: &str) -> Option<u16> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"of": name}});
    client.request("POST", MAPS, &JSON, object.to_string().as_bytes()).ok().map(|answer| answer.status)
}

/// Creates objects as fast as the store takes them, until `fault` returns and each writer has failed, or has written on after it.
pub(super) fn write_during(store: &Store, member: usize, prefix: &str, fault: impl FnOnce()) -> Writes {
    let pool = ClientPool::new(2).unwrap();
    let target = store.admin_target(member).timeout(Duration::from_secs(5));
    let (acknowledged, sent) = (Mutex::new(BTreeSet::new()), Mutex::new(0));
    let is_over = AtomicBool::new(false);
    let (begin, mut took) = (Instant::now(), Duration::ZERO);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let client = pool.connect(&target).unwrap();
            let (acknowledged, sent, is_over) = (&acknowledged, &sent, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let name = format!("{prefix}-{writer}-{number}");
                    *sent.lock().unwrap() += 1;
                    match create(&client, &name) {
                        Some(201) => drop(acknowledged.lock().unwrap().insert(name)),
                        _ if client.is_closed() => break,
                        _ => {}
                    }
                }
            });
        }
        fault();
        took = begin.elapsed();
        is_over.store(true, Ordering::Relaxed);
    });
    Writes { acknowledged: acknowledged.into_inner().unwrap(), sent: sent.into_inner().unwrap(), took }
}

/// Those that are not in the store, or not as they were written.
pub(super) fn missing(store: &Store, member: usize, written: &BTreeSet<String>) -> Vec<String> {
    let list = store.get(member, MAPS).unwrap().json().unwrap();
    let good = |one: &Value| (one["metadata"]["name"] == one["data"]["of"]).then(|| one["metadata"]["name"].clone());
    let present: BTreeSet<String> =
        list["items"].as_array().unwrap().iter().filter_map(|one| Some(good(one)?.as_str()?.to_owned())).collect();
    written.iter().filter(|name| !present.contains(*name)).cloned().collect()
}

/// Waits for this long, and for a number of writes that makes the test worth its name.
pub(super) fn lasting(time: Duration) {
    let begin = Instant::now();
    wait::until("the writes have lasted", time + START, || (begin.elapsed() > time).then_some(())).unwrap();
}

fn report(what: &str, writes: &Writes, missing: &[String]) {
    let rate = writes.acknowledged.len() as f64 / writes.took.as_secs_f64();
    println!(
        "{what}: {} of {} creations acknowledged ({rate:.0}/s), {} of them missing after the restart",
        writes.acknowledged.len(),
        writes.sent,
        missing.len()
    );
}

#[test]
fn acknowledged_writes_survive_kills_of_etcd_and_kube_apiserver() {
    let Some(mut store) = Store::start("store-kill", 1, &[]) else { return };
    for (what, kills_etcd) in [("kill -9 of etcd", true), ("kill -9 of kube-apiserver", false)] {
        let prefix = if kills_etcd { "etcd" } else { "api" };
        let writes = write_during(&store, 0, prefix, || {
            lasting(Duration::from_secs(3));
            let member = store.first();
            if kills_etcd { member.etcd.kill() } else { member.apiserver.kill() }
        });
        let begin = Instant::now();
        let member = &mut store.members[0];
        if kills_etcd {
            member.restart_etcd();
        } else {
            member.restart_apiserver();
        }
        store.wait_ready(0);
        let back = begin.elapsed();
        let missing = missing(&store, 0, &writes.acknowledged);
        report(what, &writes, &missing);
        println!("{what}: ready {:.1} s after the restart", back.as_secs_f64());
        assert!(writes.acknowledged.len() > 100, "{}", writes.acknowledged.len());
        assert_eq!(missing, Vec::<String>::new(), "{what}");
    }
}

/// etcd refuses writes at its quota, keeps what it has, and goes on after a compaction and the end of the alarm.
#[test]
fn full_store_refuses_writes_and_keeps_what_it_has() {
    let Some(laid_out) = LaidOut::new("store-full", 1, &["--etcd-flag=--quota-backend-bytes=16777216"]) else { return };
    laid_out.init(&[]);
    let store = laid_out.start();
    store.apply_all();
    let client = H2Client::connect(&store.admin_target(0)).unwrap();
    let mut written = Vec::new();
    let refusal = (0..200).find_map(|number| {
        let name = format!("large-{number}");
        let data = json!({"of": name, "filler": "x".repeat(500_000)});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        let answer = client.request("POST", MAPS, &JSON, object.to_string().as_bytes()).unwrap();
        if answer.status == 201 {
            written.push(name);
            return None;
        }
        Some((answer.status, answer.text()))
    });
    let (status, text) = refusal.unwrap();
    println!("full: refused with {status} after {} objects of 500 kB: {text}", written.len());
    assert!(status == 500 && text.contains("database space exceeded"), "{status}: {text}");
    assert_eq!(missing(&store, 0, &written.iter().cloned().collect()), Vec::<String>::new(), "what it has can be read");

    for name in &written {
        let answer = client.request("DELETE", &format!("{MAPS}/{name}"), &JSON, b"").unwrap();
        assert_eq!(answer.status, 200, "a deletion is possible: {}", answer.text());
    }
    let revision = store.etcd(0, "/v3/kv/range", &json!({"key": "eA=="}))["header"]["revision"].clone();
    store.etcd(0, "/v3/kv/compaction", &json!({"revision": revision, "physical": true}));
    store.etcd(0, "/v3/maintenance/defragment", &json!({}));
    let alarms = store.etcd(0, "/v3/maintenance/alarm", &json!({"action": "GET"}));
    let member = alarms["alarms"][0]["memberID"].clone();
    assert!(member.is_string(), "{alarms}");
    let over = json!({"action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"});
    store.etcd(0, "/v3/maintenance/alarm", &over);
    let again = || match create(&client, "after").unwrap() {
        201 | 409 => Ok(()),
        status => Err(status),
    };
    wait::until_ok("the store takes writes again", START, again).map_err(|error| error.to_string()).unwrap();
}
