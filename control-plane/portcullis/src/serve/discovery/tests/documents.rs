use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use portcullis_api::Settings;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::answers::Answers;
use super::super::documents::DiscoveredDocuments;
use super::super::want::Wants;
use super::{document, settings};

/// An object: its name, whether and how it discovers servers, and its edition.
type Drawn = (usize, usize, usize);

/// An object of each kind.
static OBJECTS: LazyLock<[Arc<Value>; 3]> = LazyLock::new(|| {
    let service = json!({"service": {"namespace": "ns", "name": "tenant", "port": 6443}});
    [Value::Null, service, json!({"kubernetesService": true})].map(|discovery| document(&discovery))
});

fn object((name, discovery, edition): Drawn) -> Arc<Value> {
    let mut document = OBJECTS[discovery].as_ref().clone();
    document["metadata"]["name"] = json!(format!("c{name}.test"));
    document["spec"]["dispatchPolicies"][0]["rules"][0]["verbs"][0] = json!(if edition == 0 { "get" } else { "list" });
    Arc::new(document)
}

fn answers(documents: &[Arc<Value>], settings: &Settings, answer: Option<u8>) -> Answers {
    let Some(last) = answer else { return Answers::default() };
    let (mut discovered, mut documents) = (DiscoveredDocuments::default(), documents.to_vec());
    let (wants, _) = discovered.put_all(&mut documents, settings);
    let wants: Wants = wants.into_iter().flatten().map(|want| (want.name().to_owned(), want)).collect();
    Answers::of_wants(&wants, last)
}

#[test]
fn edit_of_one_document_looks_at_one() {
    let mut discovered = DiscoveredDocuments::default();
    let mut written: Vec<_> = (0..1_000).map(|number| object((number, number % 3, 0))).collect();
    discovered.answer(Arc::new(answers(&written, &settings(), Some(1))));
    let mut put = |written: &[Arc<Value>]| {
        let mut documents = written.to_vec();
        let (_, looked_at) = discovered.put_all(&mut documents, &settings());
        (documents, looked_at)
    };
    let (before, first) = put(&written);
    written[500] = object((500, 2, 1));
    let (after, looked_at) = put(&written);
    let others = before.iter().zip(&after).filter(|(one, other)| !Arc::ptr_eq(one, other)).count();
    assert_eq!((first, looked_at, others), (1_000, 1, 1));
}

proptest! {
    #[test]
    fn documents_are_those_of_no_memory(
        rounds in proptest::collection::vec(
            (
                proptest::collection::vec((0..3_usize, 0..3_usize, 0..2_usize), 0..5),
                proptest::option::of((proptest::option::of(0..2_u8), any::<bool>())),
            ),
            1..8),
    ) {
        let mut discovered = DiscoveredDocuments::default();
        let (mut made, mut settings) = (BTreeMap::new(), settings());
        for (objects, change) in rounds {
            let one = |key: Drawn| Arc::clone(made.entry(key).or_insert_with(|| object(key)));
            let written: Vec<Arc<Value>> = objects.into_iter().map(one).collect();
            if let Some((answer, allows_loopback)) = change {
                settings.allow_loopback_upstreams = allows_loopback;
                discovered.answer(Arc::new(answers(&written, &settings, answer)));
            }
            let mut anew = DiscoveredDocuments::default();
            anew.answer(discovered.answers());
            let (mut documents, mut expected) = (written.clone(), written);
            let (wants, _) = discovered.put_all(&mut documents, &settings);
            let expected_wants: Vec<_> = expected.iter_mut().map(|one| anew.put(one, &settings)).collect();
            prop_assert_eq!(&documents, &expected);
            prop_assert_eq!(&wants, &expected_wants);
            let there: Vec<String> = wants.iter().flatten().map(|want| want.name().to_owned()).collect();
            discovered.keep(|name| there.iter().any(|one| one == name));
        }
    }
}
