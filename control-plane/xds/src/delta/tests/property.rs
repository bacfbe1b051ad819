use std::collections::BTreeMap;

use proptest::prelude::*;

use super::client::Client;
use super::*;

/// One served object: a listener and its route, which refers to the clusters.
#[derive(Clone, Debug)]
struct Entry {
    object: u8,
    clusters: Vec<u8>,
    content: u8,
}

/// All that is served at one time.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let clusters = proptest::collection::vec(0..5_u8, 0..3);
    let entry =
        (0..4_u8, clusters, 0..3_u8).prop_map(|(object, clusters, content)| Entry { object, clusters, content });
    proptest::collection::vec(entry, 0..4)
}

/// The contents of its resources, by type and name.
fn resources(entries: &[Entry]) -> BTreeMap<(&'static str, String), String> {
    let mut all = BTreeMap::new();
    for entry in entries {
        let clusters: Vec<String> = entry.clusters.iter().map(|number| format!("c{number}")).collect();
        for cluster in &clusters {
            all.insert((CDS, cluster.clone()), entry.content.to_string());
            all.insert((EDS, cluster.clone()), entry.content.to_string());
        }
        all.insert((LDS, format!("o{}", entry.object)), entry.content.to_string());
        all.insert((RDS, format!("o{}", entry.object)), clusters.join(","));
    }
    all
}

/// An event of the property test.
#[derive(Clone, Debug)]
enum Step {
    Snapshot(Vec<Entry>),
    Deliver(u8),
    Room(bool),
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => entries().prop_map(Step::Snapshot),
        5 => (1..6_u8).prop_map(Step::Deliver),
        2 => any::<bool>().prop_map(Step::Room),
        1 => Just(Step::Reconnect),
    ]
}

fn made(served: &[Entry]) -> Arc<Snapshot> {
    let all = resources(served);
    let listed: Vec<_> = all.iter().map(|((url, name), body)| (*url, name.as_str(), body.as_str())).collect();
    snapshot(&listed)
}

proptest! {
    #[test]
    fn client_ends_with_the_last_snapshot(
        steps in proptest::collection::vec(step(), 1..30),
        most in prop_oneof![1..6_usize, Just(1_000)],
    ) {
        let mut served = Vec::new();
        let mut client = Client::connect(made(&served), most);
        for step in steps {
            match step {
                Step::Snapshot(newer) => {
                    served = newer;
                    client.on_snapshot(made(&served));
                }
                Step::Deliver(count) => (0..count).for_each(|_| { client.step(); }),
                Step::Room(has_room) => client.on_room(has_room),
                Step::Reconnect => client.reconnect(made(&served)),
            }
        }
        client.on_room(true);
        let mut left = 1_000;
        while client.step() {
            left -= 1;
            prop_assert!(left > 0, "the conversation does not end");
        }
        let held: BTreeMap<_, _> = client
            .view
            .iter()
            .flat_map(|(url, view)| view.iter().map(|(name, (_, content))| ((*url, name.clone()), content.clone())))
            .collect();
        prop_assert_eq!(held, resources(&served));
        prop_assert!(client.stream.is_in_sync());
    }
}
