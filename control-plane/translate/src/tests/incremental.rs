//! Whatever was translated before, the outcome is that of a translation from scratch.

use std::collections::BTreeSet;
use std::sync::Arc;

use portcullis_api::{AccessLog, Settings, Tunnel};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Pki, set};
use crate::document_parts::Parts;
use crate::filter_build::FilterBuild;
use crate::resource::Part;
use crate::translator::Translator;
use crate::{Input, translate};

/// An edit of the objects.
#[derive(Clone, Debug)]
enum Step {
    /// An object of this number is there, in this edition.
    Put(u8, u8),
    Remove(u8),
    /// The source reads everything anew.
    Reread,
    /// Objects come in another order.
    Rotate,
    Settings(u8),
    /// Objects are for Envoys of other owners.
    Divide(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_u8, 0..7_u8).prop_map(|(object, edition)| Step::Put(object, edition)),
        1 => (0..4_u8).prop_map(Step::Remove),
        1 => Just(Step::Reread),
        1 => Just(Step::Rotate),
        1 => (0..3_u8).prop_map(Step::Settings),
        2 => (0..6_u8).prop_map(Step::Divide),
    ]
}

/// Good, bad, and in conflict with the others.
fn edition(pki: &Pki, object: u8, edition: u8) -> Value {
    let mut cluster = pki.cluster(&format!("c{object}.example.com"));
    match edition {
        0 => {}
        1 => set(&mut cluster, "/spec/dispatchPolicies", json!([{"rules": [{"verbs": ["get"], "apiGroups": ["*"]}]}])),
        2 => set(&mut cluster, "/spec/servers", json!([])),
        3 => set(&mut cluster, "/spec/serverz", json!([])),
        4 => set(&mut cluster, "/spec/secureServing/serverNames", json!(["shared.example.com"])),
        5 => set(&mut cluster, "/metadata/name", json!("c0.example.com")),
        _ => set(&mut cluster, "/spec/secureServing/serverNames", json!(["*.example.com"])),
    }
    cluster
}

fn settings(pki: &Pki, choice: u8) -> Settings {
    match choice {
        0 => pki.settings(),
        1 => Settings { access_log: AccessLog::None, ..pki.settings() },
        _ => Settings { default_certificate: None, ..pki.settings() },
    }
}

/// The parts of the objects of these numbers: none, or two or three. Some are served elsewhere.
fn division(choice: u8, objects: &[(u8, Arc<Value>)]) -> (usize, Vec<Vec<usize>>, Vec<bool>) {
    if choice == 0 {
        return (1, Vec::new(), Vec::new());
    }
    let count = 2 + usize::from(choice % 2);
    let of = |number: u8| match (number + choice) % 5 {
        0 => Vec::new(),
        1 => vec![0, 1],
        other => vec![usize::from(other) % count],
    };
    let is_foreign = |number: u8| choice > 3 && number == choice - 3;
    let of: Vec<_> = objects.iter().map(|(number, _)| of(*number)).collect();
    // The last one is beyond the end.
    let of = of.into_iter().take(objects.len() - usize::from(choice == 2 && !objects.is_empty())).collect();
    (count, of, objects.iter().map(|(number, _)| is_foreign(*number)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn translation_does_not_depend_on_earlier_ones(steps in proptest::collection::vec(step(), 1..25)) {
        let pki = Pki::new();
        let mut gateway = pki.settings();
        let mut objects: Vec<(u8, Arc<Value>)> = Vec::new();
        let mut translator = Translator::default();
        let (mut divided, mut before) = (0, 0);
        for step in steps {
            match step {
                Step::Put(object, of) => {
                    let document = Arc::new(edition(&pki, object, of));
                    match objects.iter_mut().find(|(number, _)| *number == object) {
                        Some((_, before)) => *before = document,
                        None => objects.push((object, document)),
                    }
                }
                Step::Remove(object) => objects.retain(|(number, _)| *number != object),
                Step::Reread => objects.iter_mut().for_each(|(_, one)| *one = Arc::new(one.as_ref().clone())),
                Step::Rotate if objects.is_empty() => {}
                Step::Rotate => objects.rotate_left(1),
                Step::Settings(choice) => gateway = settings(&pki, choice),
                Step::Divide(choice) => divided = choice,
            }
            let clusters: Vec<_> = objects.iter().map(|(_, document)| Arc::clone(document)).collect();
            let input = Input { settings: &gateway, clusters: &clusters, filter: FilterBuild::Module };
            let (count, of, foreign) = division(divided, &objects);
            let parts = Parts { count, of: &of, foreign: &foreign };
            let scratch = Translator::default().translate_parts(&input, &parts);
            prop_assert_eq!(translator.translate_parts(&input, &parts), scratch);
            // Nothing is kept but what the last two translations used: an object's results with all its names, and without some.
            let bound = 2 * (objects.len() + before);
            prop_assert!(translator.kept() <= bound, "{} > {}", translator.kept(), bound);
            before = objects.len();
        }
    }
}

#[test]
fn unchanged_object_keeps_its_resources() {
    let pki = Pki::new();
    let gateway = pki.settings();
    let mut clusters: Vec<_> = (0..3).map(|number| Arc::new(edition(&pki, number, 0))).collect();
    let mut translator = Translator::default();
    let before = translator.translate(&Input { settings: &gateway, clusters: &clusters, filter: FilterBuild::Module });
    let mut edited = edition(&pki, 1, 0);
    set(&mut edited, "/spec/dispatchPolicies/1/rules/0/verbs", json!(["get"]));
    clusters[1] = Arc::new(edited);
    let after = translator.translate(&Input { settings: &gateway, clusters: &clusters, filter: FilterBuild::Module });
    let pairs = before.resources().into_iter().zip(after.resources());
    let other: Vec<_> = pairs.filter(|(a, b)| !Arc::ptr_eq(a, b)).map(|(_, made)| made.name.as_ref()).collect();
    assert!(!other.is_empty() && other.iter().all(|name| name.contains("/c1.example.com/")), "{other:?}");
    let same = before.groups.iter().zip(&after.groups).map(|(one, other)| Arc::ptr_eq(one, other));
    assert_eq!(same.collect::<Vec<_>>(), [true, false, true, true], "the gateway's own group has the listener");
}

/// With ten thousand clusters the bytes of chains are a large part of the control plane's memory.
#[test]
fn chain_has_the_same_bytes_in_every_listener() {
    let pki = Pki::new();
    let gateway = Settings { tunnel: Some(tunnel()), trusted_hops: 2, ..pki.settings() };
    let clusters: Vec<_> = (0..3).map(|number| Arc::new(edition(&pki, number, 0))).collect();
    let mut translator = Translator::default();
    let mut parts = |clusters: &[Arc<Value>]| -> Vec<(Arc<str>, Part)> {
        let translation = translator.translate(&Input { settings: &gateway, clusters, filter: FilterBuild::Module });
        let resources = translation.resources().into_iter();
        resources.flat_map(|one| one.parts.iter().map(|part| (one.name.clone(), part.clone()))).collect()
    };
    let places = |part: &Part| part.body.iter().chain([&part.fallback]).map(|one| one.as_ptr()).collect::<Vec<_>>();
    let before = parts(&clusters[..2]);
    let after = parts(&clusters);
    assert_eq!((before.len(), after.len()), (4, 6));
    for (listener, part) in &before {
        let is_twin = |(name, other): &&(Arc<str>, Part)| (name, &other.owner) == (listener, &part.owner);
        let (_, twin) = after.iter().find(is_twin).unwrap();
        assert_eq!(places(part), places(twin), "{listener}: {part:?}");
    }
    // Each chain has a piece of its own, and one in common with all others of its listener.
    let pieces: Vec<_> = after.iter().flat_map(|(_, part)| &part.body).map(|one| one.as_ptr()).collect();
    let different: BTreeSet<_> = pieces.iter().collect();
    assert_eq!((pieces.len(), different.len()), (12, 8));
}

fn tunnel() -> Tunnel {
    Tunnel { port: 8443, header: "x-to".to_owned(), sources: Vec::new() }
}

#[test]
fn edits_beside_a_refused_object_keep_the_listeners() {
    let pki = Pki::new();
    let gateway = pki.settings();
    let versions = [Arc::new(edition(&pki, 0, 2)), Arc::new(edition(&pki, 0, 0))];
    let mut translator = Translator::default();
    // The refused version, and then the accepted one before it.
    let mut own_groups = |other: Value| {
        let other = Arc::new(other);
        versions.each_ref().map(|version| {
            let clusters = [Arc::clone(version), Arc::clone(&other)];
            let input = Input { settings: &gateway, clusters: &clusters, filter: FilterBuild::Module };
            let translation = translator.translate(&input);
            assert_eq!(translation, translate(&input));
            Arc::clone(translation.groups.last().unwrap())
        })
    };
    let before = own_groups(edition(&pki, 1, 0));
    assert!(!Arc::ptr_eq(&before[0], &before[1]), "one that is refused has another chain");
    let mut edited = edition(&pki, 1, 0);
    set(&mut edited, "/spec/dispatchPolicies/1/rules/0/verbs", json!(["get"]));
    let after = own_groups(edited);
    let same = before.iter().zip(&after).map(|(one, other)| Arc::ptr_eq(one, other));
    assert_eq!(same.collect::<Vec<_>>(), [true, true]);
}

#[test]
fn results_of_edits_and_removed_objects_are_not_kept() {
    let pki = Pki::new();
    let gateway = pki.settings();
    let mut clusters: Vec<_> = (0..3).map(|number| Arc::new(edition(&pki, number, 0))).collect();
    let mut translator = Translator::default();
    let mut kept = |clusters: &[Arc<Value>]| {
        translator.translate(&Input { settings: &gateway, clusters, filter: FilterBuild::Module });
        translator.kept()
    };
    assert_eq!((kept(&clusters), kept(&clusters)), (3, 3));
    for step in 0..5_u8 {
        let mut edited = edition(&pki, 1, 0);
        set(&mut edited, "/spec/dispatchPolicies/1/rules/0/verbs", json!([format!("verb{step}")]));
        clusters[1] = Arc::new(edited);
        assert_eq!(kept(&clusters), 4, "with the version before");
    }
    assert_eq!(kept(&clusters), 3);
    let removed = clusters.split_off(1);
    assert_eq!((kept(&clusters), kept(&clusters)), (3, 1));
    clusters.extend(removed);
    assert_eq!((kept(&clusters), kept(&clusters)), (3, 3));
}
