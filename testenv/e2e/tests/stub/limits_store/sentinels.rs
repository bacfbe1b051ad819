//! A Redis whose master sentinels choose.

use std::net::SocketAddr;

use portcullis_harness::process::Signal;
use portcullis_harness::redis::Redis;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;

use super::SOON;

/// The lines by which a replica's lag bounds the writes of a master that was cut off.
const BOUNDED: [&str; 2] = ["min-replicas-to-write 1", "min-replicas-max-lag 2"];

/// A master, two replicas of it, three sentinels, and their address.
pub(crate) struct Site {
    servers: Vec<Redis>,
    sentinels: Vec<Redis>,
    pub(crate) address: String,
}

impl Site {
    pub(crate) fn start(run: &RunDir) -> Self {
        let master = Redis::free_address().unwrap();
        let replica = format!("replicaof 127.0.0.1 {}", master.port());
        let mut servers = vec![Redis::server(run.path(), "redis-0", master, &BOUNDED).unwrap()];
        for number in 1..3 {
            let lines = [&BOUNDED[..], &[replica.as_str()]].concat();
            let address = Redis::free_address().unwrap();
            servers.push(Redis::server(run.path(), &format!("redis-{number}"), address, &lines).unwrap());
        }
        let sentinels: Vec<_> = (0..3).map(|number| sentinel(run, number, master)).collect();
        let hosts: Vec<_> = sentinels.iter().map(|one| one.address().to_string()).collect();
        Site { servers, sentinels, address: format!("redis+sentinel://{}/limits", hosts.join(",")) }
    }

    /// Stops the master, and waits for another one.
    pub(crate) fn hang_until_another_is_chosen(&self) {
        self.servers[0].process().signal(Signal::Stop).unwrap();
        let is_another = |one: &Redis| one.process().log().contains("MASTER MODE enabled");
        wait::until("another master", SOON, || self.servers.iter().any(is_another).then_some(())).unwrap();
    }

    /// Waits until so many sentinels name the other master.
    pub(crate) fn wait_named(&self, sentinels: usize) {
        let names = |one: &&Redis| one.process().log().contains("+switch-master");
        let are_enough = || (self.sentinels.iter().filter(names).count() >= sentinels).then_some(());
        wait::until("sentinels name the other master", SOON, are_enough).unwrap();
    }

    /// Lets the first master go on, and waits until it follows the other one.
    pub(crate) fn go_on(&self) {
        self.servers[0].process().signal(Signal::Cont).unwrap();
        let is_replica = || self.servers[0].process().log().contains("REPLICAOF").then_some(());
        wait::until("the first one is a replica", SOON, is_replica).unwrap();
    }
}

fn sentinel(run: &RunDir, number: usize, master: SocketAddr) -> Redis {
    let lines = [
        format!("sentinel monitor limits 127.0.0.1 {} 2", master.port()),
        "sentinel down-after-milliseconds limits 5000".to_owned(),
        "sentinel failover-timeout limits 6000".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Redis::sentinel(run.path(), &format!("sentinel-{number}"), &lines).unwrap()
}
