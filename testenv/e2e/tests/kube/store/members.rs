use std::time::{Duration, Instant};

use portcullis_harness::process::Signal;
use portcullis_harness::wait;

use super::faults::{lasting, missing, write_during};
use super::fixture::{START, Store};

/// Three members: writes at one of them while another is frozen, which is a partition to the others; and reads at each after it.
#[test]
fn three_members_go_on_without_one() {
    let Some(store) = Store::start("store-members", 3, &[]) else { return };
    let mut acknowledged = std::collections::BTreeSet::new();
    // One of them is the leader.
    for frozen in [1, 2] {
        let begin = Instant::now();
        let writes = write_during(&store, 0, &format!("without-{frozen}"), || {
            store.members[frozen].etcd.signal(Signal::Stop).unwrap();
            lasting(Duration::from_secs(5));
        });
        store.members[frozen].etcd.signal(Signal::Cont).unwrap();
        println!(
            "member {frozen} frozen for {:.1} s: {} of {} creations acknowledged",
            begin.elapsed().as_secs_f64(),
            writes.acknowledged.len(),
            writes.sent
        );
        assert!(writes.acknowledged.len() > 100, "{}", writes.acknowledged.len());
        acknowledged.extend(writes.acknowledged);
        for member in 0..3 {
            let complete = || {
                let missing = missing(&store, member, &acknowledged);
                if missing.is_empty() { Ok(()) } else { Err(format!("{} missing", missing.len())) }
            };
            wait::until_ok("the member has everything", START, complete).unwrap();
        }
    }
    println!("{} acknowledged creations are at each of three members", acknowledged.len());
}

/// Without a majority nothing is written, and nothing is acknowledged.
#[test]
fn one_member_of_three_acknowledges_nothing() {
    let Some(mut store) = Store::start("store-minority", 3, &[]) else { return };
    for member in [1, 2] {
        store.members[member].etcd.kill();
    }
    let created = store.kubectl(&["create", "configmap", "lonely", "--request-timeout=3s"]).run().unwrap();
    assert!(!created.success(), "{}", created.stdout);
    for member in [1, 2] {
        store.members[member].restart_etcd();
    }
    wait::until("writes go on", START, || {
        let written = store.kubectl(&["create", "configmap", "together", "--request-timeout=5s"]).run().unwrap();
        (written.success() || written.stderr.contains("already exists")).then_some(())
    })
    .unwrap();
}
