use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, H2Client, TlsTarget};
use portcullis_harness::wait;
use serde_json::json;

use super::faults::{create, lasting, missing};
use super::fixture::{START, Store};
use super::serving::Served;

/// Clients at each member, each with one write at a time.
const CLIENTS: usize = 32;
const MEMBERS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    KubeApiserver,
    Etcd,
}

/// Each part of the store; each etcd, because one of them leads.
const KILLS: [(Part, usize); 4] = [(Part::KubeApiserver, 0), (Part::Etcd, 0), (Part::Etcd, 1), (Part::Etcd, 2)];

/// A creation that was answered with 201.
struct Acknowledged {
    member: usize,
    at: Instant,
    name: String,
}

/// Writes of many clients, until they are stopped.
#[derive(Default)]
struct Load {
    acknowledged: Mutex<Vec<Acknowledged>>,
    sent: AtomicUsize,
    is_over: AtomicBool,
}

impl Load {
    /// One client: it connects again as often as it has to.
    fn write(&self, pool: &ClientPool, target: &TlsTarget, member: usize, client: usize) {
        let mut connection = None;
        for number in 0.. {
            let Some(connected) = self.connected(&mut connection, pool, target) else { return };
            let name = format!("m{member}-{client}-{number}");
            self.sent.fetch_add(1, Ordering::Relaxed);
            if create(connected, &name) == Some(201) {
                self.acknowledged.lock().unwrap().push(Acknowledged { member, at: Instant::now(), name });
            }
        }
    }

    /// The connection, or a new one in the place of a closed one; none when all is over.
    fn connected<'a>(
        &self,
        kept: &'a mut Option<H2Client>,
        pool: &ClientPool,
        target: &TlsTarget,
    ) -> Option<&'a H2Client> {
        if kept.as_ref().is_none_or(H2Client::is_closed) {
            let again = || match self.is_over.load(Ordering::Relaxed) {
                true => Some(None),
                false => pool.connect(target).ok().map(Some),
            };
            *kept = wait::until("a connection to the store", START, again).unwrap();
        }
        if self.is_over.load(Ordering::Relaxed) { None } else { kept.as_ref() }
    }

    fn has_since(&self, member: usize, time: Instant) -> bool {
        self.acknowledged.lock().unwrap().iter().rev().any(|one| one.member == member && one.at > time)
    }

    /// Waits until each member has acknowledged a write after a time.
    fn wait_all_since(&self, time: Instant) {
        let all = || (0..MEMBERS).all(|member| self.has_since(member, time)).then_some(());
        wait::until("all members take writes", START, all).unwrap();
    }
}

/// A kill, and the writes around it.
struct Kill {
    what: String,
    killed: Instant,
    back: Instant,
}

impl Kill {
    /// The longest time without an acknowledged write at a member.
    fn gap(&self, load: &[Acknowledged], member: usize) -> Duration {
        // The last write before it may be one that was under way.
        let around = self.killed.checked_sub(Duration::from_secs(1)).unwrap()..self.back + Duration::from_secs(1);
        let times: Vec<Instant> =
            load.iter().filter(|one| one.member == member && around.contains(&one.at)).map(|one| one.at).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    }
}

/// Whether the member's etcd leads the others.
fn leads(store: &Store, member: usize) -> bool {
    let status = store.etcd(member, "/v3/maintenance/status", &json!({}));
    status["leader"] == status["header"]["member_id"]
}

/// Kills each part of a store of three while clients write to all members, restarts it at once, and adds an object, which a
/// gateway then has.
#[test]
#[ignore = "a minute of load: make test-store-faults"]
fn kill_of_any_part_loses_no_acknowledged_write() {
    let Some(mut store) = Store::start("store-kills", MEMBERS, &[]) else { return };
    let served = Served::start(&store);
    let load = Load::default();
    let pool = ClientPool::new(2).unwrap();
    let targets: Vec<TlsTarget> =
        (0..MEMBERS).map(|member| store.admin_target(member).timeout(Duration::from_secs(5))).collect();
    let begin = Instant::now();
    let mut rate = 0.0;
    let kills = std::thread::scope(|scope| {
        for (member, target) in targets.iter().enumerate() {
            for client in 0..CLIENTS {
                let (load, pool) = (&load, &pool);
                scope.spawn(move || load.write(pool, target, member, client));
            }
        }
        let mut kills = Vec::new();
        for (number, (part, member)) in KILLS.into_iter().enumerate() {
            load.wait_all_since(Instant::now());
            lasting(Duration::from_secs(4));
            if number == 0 {
                rate = load.acknowledged.lock().unwrap().len() as f64 / begin.elapsed().as_secs_f64();
            }
            let role = if part == Part::Etcd && leads(&store, member) { ", which leads" } else { "" };
            let killed = Instant::now();
            // Each ends it by SIGKILL first.
            match part {
                Part::KubeApiserver => store.members[member].restart_apiserver(),
                Part::Etcd => store.members[member].restart_etcd(),
            }
            load.wait_all_since(Instant::now());
            let back = Instant::now();
            served.wait_current(true);
            let edit = Instant::now();
            served.add(&store, &format!("added-{number}.example.com"));
            let what = format!(
                "{part:?} of member {member}{role}; an edit is at Envoy {:.1} s later",
                edit.elapsed().as_secs_f64()
            );
            kills.push(Kill { what, killed, back });
        }
        load.wait_all_since(Instant::now());
        load.is_over.store(true, Ordering::Relaxed);
        kills
    });
    let took = begin.elapsed().as_secs_f64();
    served.assert_nothing_removed();
    let (acknowledged, sent) = (load.acknowledged.into_inner().unwrap(), load.sent.into_inner());
    println!(
        "{} of {sent} creations acknowledged in {took:.0} s; {rate:.0}/s before the first kill",
        acknowledged.len()
    );
    for kill in &kills {
        let gaps: Vec<String> = (0..MEMBERS)
            .map(|member| format!("{:.1} s at member {member}", kill.gap(&acknowledged, member).as_secs_f64()))
            .collect();
        println!("kill -9 of {}: no write acknowledged for {}", kill.what, gaps.join(", "));
    }
    let names: BTreeSet<String> = acknowledged.into_iter().map(|one| one.name).collect();
    for member in 0..MEMBERS {
        let complete = || {
            let missing = missing(&store, member, &names);
            if missing.is_empty() { Ok(()) } else { Err(format!("{} missing", missing.len())) }
        };
        wait::until_ok("the member has every acknowledged write", START, complete).unwrap();
    }
}
