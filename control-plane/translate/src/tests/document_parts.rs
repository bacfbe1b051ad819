//! Parts of the objects, for Envoys of their own.

use std::sync::Arc;

use portcullis_api::{Settings, WildcardSubdomains};
use serde_json::{Value, json};

use super::fixture::{Pki, set};
use crate::document_parts::Parts;
use crate::filter_build::FilterBuild;
use crate::resource::ResourceGroup;
use crate::translator::Translator;
use crate::{Input, type_urls};

fn owners(groups: &[ResourceGroup]) -> Vec<&str> {
    let mut owners: Vec<&str> = groups.iter().filter_map(|group| group.first()?.owner.as_deref()).collect();
    owners.dedup();
    owners
}

fn names_in_listener(groups: &[ResourceGroup], name: &str) -> bool {
    let all = groups.iter().flat_map(|group| group.iter());
    let listener = all.into_iter().find(|one| one.type_url == type_urls::listener()).unwrap();
    listener.message().windows(name.len()).any(|window| window == name.as_bytes())
}

/// Else a tenant's Envoy could pose as the gateway of all.
#[test]
fn default_certificate_is_of_the_first_part_alone() {
    let pki = Pki::new();
    let mut clusters = ["a.test", "b.test", "c.test"].map(|name| pki.cluster(name));
    for cluster in &mut clusters[1..] {
        set(cluster, "/spec/secureServing", json!({}));
    }
    let clusters = clusters.map(Arc::new);
    let settings = pki.settings();
    let input = Input { settings: &settings, clusters: &clusters, filter: FilterBuild::Module };
    let of = [vec![1], vec![1], vec![0]];
    let parted = Translator::default().translate_parts(&input, &Parts { count: 2, of: &of, ..Parts::default() });
    assert_eq!(owners(&parted.groups[0]), ["c.test"]);
    assert_eq!(owners(&parted.groups[1]), ["a.test"]);
    let has = |part: usize| {
        let all = parted.groups[part].iter().flat_map(|group| group.iter());
        all.filter(|one| one.name.contains("default-certificate")).count()
            + usize::from(names_in_listener(&parted.groups[part], "default-certificate"))
    };
    assert_eq!((has(0), has(1)), (2, 0));
    let refused = &parted.diagnoses[1];
    assert!(!refused.accepted && refused.message.contains("belongs to an Instance"), "{}", refused.message);
    assert!(parted.diagnoses[0].accepted && parted.diagnoses[2].accepted);
}

fn settings(pki: &Pki) -> Settings {
    Settings { wildcard_subdomains: WildcardSubdomains::Allowed, default_certificate: None, ..pki.settings() }
}

#[test]
fn each_part_has_the_resources_of_its_objects_alone() {
    let pki = Pki::new();
    let clusters: Vec<Arc<Value>> = ["a.test", "b.test", "c.test"].map(|name| Arc::new(pki.cluster(name))).into();
    let settings = settings(&pki);
    let input = Input { settings: &settings, clusters: &clusters, filter: FilterBuild::Module };
    let mut translator = Translator::default();
    let of = [vec![0], vec![1], vec![0, 1]];
    let parted = translator.translate_parts(&input, &Parts { count: 3, of: &of, ..Parts::default() });
    assert_eq!(
        parted.groups.iter().map(|groups| owners(groups)).collect::<Vec<_>>(),
        [vec!["a.test", "c.test"], vec!["b.test", "c.test"], vec![],]
    );
    for (part, name) in [(0, "b.test"), (1, "a.test"), (2, "c.test")] {
        assert!(!names_in_listener(&parted.groups[part], name), "{part} {name}");
    }
    // An object in two parts is kept once.
    assert!(Arc::ptr_eq(&parted.groups[0][1], &parted.groups[1][1]));
    // Without parts everything is in one, as before.
    let whole = translator.translate(&input);
    assert_eq!(owners(&whole.groups), ["a.test", "b.test", "c.test"]);
    assert_eq!(whole.diagnoses, parted.diagnoses);
    let first = [vec![0], vec![0], vec![0]];
    assert_eq!(
        translator.translate_parts(&input, &Parts { count: 2, of: &first, ..Parts::default() }).groups[0],
        whole.groups
    );
}

/// Else the clients of one owner's cluster would go to the wildcard of another owner.
#[test]
fn name_of_another_part_does_not_fall_to_a_wildcard() {
    let pki = Pki::new();
    let wild = pki.cluster("example.com");
    let mut other = pki.cluster("sub.example.com");
    set(&mut other, "/spec/secureServing/serverNames", json!([]));
    let clusters = [Arc::new(wild), Arc::new(other)];
    let settings = settings(&pki);
    let input = Input { settings: &settings, clusters: &clusters, filter: FilterBuild::Module };
    let of = [vec![0], vec![1]];
    let parted = Translator::default().translate_parts(&input, &Parts { count: 2, of: &of, ..Parts::default() });
    assert!(parted.diagnoses.iter().all(|one| one.accepted), "{:?}", parted.diagnoses);
    assert!(names_in_listener(&parted.groups[0], "sub.example.com"), "closed");
    assert!(names_in_listener(&parted.groups[0], "/reserved"), "closed");
    assert_eq!(owners(&parted.groups[0]), ["example.com"]);
    // A name that no wildcard covers is not there.
    assert!(!names_in_listener(&parted.groups[1], "*.example.com"));
}
