use portcullis_translate::type_urls;
use portcullis_xds::View;

use super::*;

fn encode(snapshot: &Snapshot, with_keys: bool) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    write(&mut file, (snapshot, &GatewayOwners::default()), with_keys).unwrap();
    file.into_inner()
}

fn decode(bytes: &[u8]) -> Result<Snapshot, SavedError> {
    super::decode(bytes).map(|(snapshot, _)| snapshot)
}

fn with_hash(body: &[u8]) -> Vec<u8> {
    [first_line(&hash(body)).as_bytes(), body].concat()
}

fn snapshot() -> Snapshot {
    let entry = |url: &'static str, name: &str, body: &[u8]| {
        let resource = Resource::new(body.to_vec()).owned_by("a.test").with_companion(type_urls::assignment(), "b");
        (url, name.to_owned(), resource)
    };
    let secret = b"\xff no secret at all, so that nobody knows what it holds: CANARY";
    let cluster = entry(type_urls::cluster(), "c", b"cluster");
    let part =
        |owner: &str| Part { owner: owner.into(), body: vec!["pa".into(), "rt".into()], fallback: Some("none".into()) };
    let parts = [part("a.test"), part("b.test")];
    let listener = Resource::new("base").with_common_and_parts("common".into(), None, parts).optional();
    let listener = (type_urls::listener(), "l".to_owned(), listener);
    let base = Snapshot::new([cluster.clone(), listener.clone(), entry(type_urls::secret(), "s", secret)]);
    let other = entry(type_urls::secret(), "s", b"\xff another CANARY");
    let view = Snapshot::new([cluster, listener, entry(type_urls::assignment(), "r", b"older words"), other]);
    base.with_views([("wasm".to_owned(), view)])
}

#[test]
fn file_is_read_as_written_and_has_keys_only_if_asked_for() {
    let before = snapshot();
    assert_eq!(decode(&encode(&before, true)).unwrap(), before);
    let bytes = encode(&before, false);
    let after = decode(&bytes).unwrap();
    assert_eq!(after.version(), before.version(), "an Envoy that has it all is asked for nothing");
    assert!(after.get(type_urls::secret(), "s").unwrap().is_version_only());
    assert_eq!(after.get(type_urls::cluster(), "c"), before.get(type_urls::cluster(), "c"));
    let view = View(Some("wasm".to_owned()));
    let (old, new) = (before.view(&view).unwrap(), after.view(&view).unwrap());
    assert_eq!(new.version(), old.version());
    for (url, name, resource) in old.resources().filter(|(url, ..)| *url != type_urls::secret()) {
        assert_eq!(new.get(url, name), Some(resource), "{url} {name}");
    }
    assert!(new.get(type_urls::secret(), "s").unwrap().is_version_only());
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains("CANARY") && !text.contains(&STANDARD.encode("CANARY")[..6]));
    assert_eq!(encode(&after, true), encode(&before, false), "what is held elsewhere stays so");
}

#[test]
fn file_that_is_not_whole_is_not_used() {
    let good = encode(&snapshot(), false);
    for length in 0..good.len() {
        assert!(decode(&good[..length]).is_err(), "{length}");
    }
    for index in 0..good.len() {
        let mut bad = good.clone();
        bad[index] ^= 1;
        assert!(decode(&bad).is_err(), "{index}");
    }
    let other = String::from_utf8(good).unwrap().replacen(" 3 ", " 4 ", 1);
    assert_eq!(decode(other.as_bytes()).unwrap_err(), SavedError::Version);
}

#[test]
fn file_of_another_configuration_version_is_not_used() {
    let resources = SavedResources::new();
    let (views, gateway_owners) = (BTreeMap::new(), GatewayOwners::default());
    let saved = Saved { config_version: CONFIG_VERSION - 1, resources, views, gateway_owners };
    let bytes = with_hash(&serde_json::to_vec(&saved).unwrap());
    assert_eq!(decode(&bytes).unwrap_err(), SavedError::ConfigVersion);
}

#[test]
fn owners_of_gateways_are_read_as_written_or_are_none() {
    let owners = |text: &str| serde_json::from_str::<GatewayOwners>(text).unwrap();
    let all = r#"{"infra/a":{"uid":"1"},"infra/b":{"uid":"2","instance":"a","next":""}}"#;
    let mut file = std::io::Cursor::new(Vec::new());
    write(&mut file, (&snapshot(), &owners(all)), false).unwrap();
    let text = String::from_utf8(file.into_inner()).unwrap();
    assert_eq!(super::decode(text.as_bytes()).unwrap().1, owners(all));
    let (_, body) = text.split_once('\n').unwrap();
    assert!(body.contains(all));
    for (other, known) in [
        (body.replace(&format!(",\"gateway_owners\":{all}"), ""), "{}"),
        (body.replace(all, "[7]"), "{}"),
        (body.replace(r#""uid":"1""#, r#""uid":"1","later":true"#), all),
    ] {
        assert_ne!(other, body);
        let (read, found) = super::decode(&with_hash(other.as_bytes())).unwrap();
        assert_eq!((read.version(), found), (snapshot().version(), owners(known)));
    }
}

/// Before, the version of a resource with parts was the hash of its bytes.
#[test]
fn file_of_an_earlier_release_is_read() {
    let expected = snapshot();
    let text = String::from_utf8(encode(&expected, true)).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    let listener = expected.get(type_urls::listener(), "l").unwrap();
    let earlier = Resource::new(listener.pieces().concat());
    let body = body.replace(listener.version(), earlier.version());
    assert_eq!(body.matches(earlier.version()).count(), 2, "of the module and of the view");
    assert_eq!(decode(&with_hash(body.as_bytes())).unwrap(), expected);
    let cluster = expected.get(type_urls::cluster(), "c").unwrap();
    let body = body.replace(cluster.version(), earlier.version());
    assert_eq!(decode(&with_hash(body.as_bytes())).unwrap_err(), SavedError::Content);
}

#[test]
fn parts_are_the_end_of_the_bytes_without_gaps() {
    let part = |start, end| SavedPart { owner: format!("o{start}"), start, end, instead: None };
    let divided = |parts: Vec<SavedPart>| divided(&"baseonetwo".into(), parts);
    let good = divided(vec![part(4, 7), part(7, 10)]).unwrap();
    assert_eq!(good.pieces(), ["base", "one", "two"]);
    assert_eq!(divided(Vec::new()).unwrap().pieces(), ["baseonetwo"]);
    for parts in [
        vec![part(4, 7)],
        vec![part(4, 6), part(7, 10)],
        vec![part(4, 11)],
        vec![part(7, 4), part(4, 10)],
        vec![part(40, 41)],
        vec![part(7, 10), part(4, 7)],
    ] {
        assert_eq!(divided(parts).unwrap_err(), SavedError::Content);
    }
}
