//! One resource `l` of parts: whatever is bad is found, and nothing that was in service is taken out of it on the way.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::content_hash::ContentHash;

/// Part and content. A content with `!` is bad; `x@` is bad unless some other part is `x`; the whole itself is `=`.
type Parts<'a> = &'a [(&'a str, &'a str)];

fn offer(parts: Parts<'_>) -> Offer {
    let mut chunks = Chunks::new();
    let mut hash = ContentHash::default();
    for (part, content) in parts {
        let key = ChunkKey { resource: "l".into(), part: (*part != "=").then(|| (*part).into()) };
        let fallback = key.part.is_some().then(|| Bytes::from("closed"));
        chunks.insert(key, Chunk::new(vec![Bytes::copy_from_slice(content.as_bytes())], fallback));
        hash.add(part);
        hash.add(content);
    }
    Offer::wanted(&hash.finish(), chunks)
}

fn show(offer: &Offer) -> String {
    let text = |chunk: &Chunk| String::from_utf8(chunk.body().concat()).unwrap();
    let one = |(key, chunk): (&ChunkKey, &Chunk)| format!("{}:{}", key.part.as_deref().unwrap_or("="), text(chunk));
    offer.chunks.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Why Envoy refuses an offer.
fn error(offer: &Offer) -> Option<String> {
    let all = show(offer);
    let bad = |part: &&str| {
        part.contains('!')
            || part.split_once('@').is_some_and(|(need, _)| {
                let need = need.split(':').next_back().unwrap_or_default().to_owned();
                !all.split(' ').any(|other| other.ends_with(&format!(":{need}")))
            })
    };
    all.split(' ').find(bad).map(|_| "?".to_owned())
}

/// Offers until nothing is left to say; returns everything that was offered, refusals with a `!` before them.
fn settle(quarantine: &mut Quarantine) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(offer) = quarantine.next() {
        assert!(said.len() < 200, "no end: {said:#?}");
        match error(&offer) {
            Some(message) => {
                said.push(format!("! {}", show(&offer)));
                quarantine.on_nack(&offer, &message);
            }
            None => {
                said.push(show(&offer));
                quarantine.on_ack(offer);
            }
        }
    }
    said
}

fn settled(parts: Parts<'_>) -> Quarantine {
    let mut quarantine = Quarantine::default();
    quarantine.set_target(offer(parts));
    settle(&mut quarantine);
    quarantine
}

fn bad(quarantine: &Quarantine) -> Vec<&str> {
    quarantine.refused().map(|(key, _)| key.name()).collect()
}

#[test]
fn good_offer_is_made_once() {
    let mut quarantine = Quarantine::default();
    quarantine.set_target(offer(&[("=", "1"), ("a", "1")]));
    assert_eq!(settle(&mut quarantine), ["=:1 a:1"]);
    assert!(quarantine.is_in_sync());
    quarantine.set_target(offer(&[("=", "1"), ("b", "1")]));
    assert_eq!(settle(&mut quarantine), ["=:1 b:1"]);
}

#[test]
fn edit_that_is_bad_leaves_what_was_accepted() {
    let mut quarantine = settled(&[("=", "1"), ("a", "1"), ("b", "1")]);
    quarantine.set_target(offer(&[("=", "1"), ("a", "2!"), ("b", "1")]));
    assert_eq!(settle(&mut quarantine), ["! =:1 a:2! b:1", "=:1 a:1 b:1"], "the second tells what was refused");
    assert_eq!(bad(&quarantine), ["a"]);
    assert!(!quarantine.is_in_sync());
    quarantine.set_target(offer(&[("=", "1"), ("a", "2!"), ("b", "2")]));
    assert_eq!(settle(&mut quarantine), ["=:1 a:1 b:2"], "the rest goes on");
    quarantine.set_target(offer(&[("=", "1"), ("a", "3"), ("b", "2")]));
    assert_eq!(settle(&mut quarantine), ["=:1 a:3 b:2"]);
    assert!(quarantine.is_in_sync());
}

#[test]
fn new_part_that_is_bad_is_replaced_by_what_stands_instead() {
    let mut quarantine = settled(&[("=", "1"), ("a", "1")]);
    quarantine.set_target(offer(&[("=", "1"), ("a", "2"), ("b", "1!"), ("c", "1")]));
    let said = settle(&mut quarantine);
    assert_eq!(said.last().unwrap(), "=:1 a:2 b:closed c:1", "{said:#?}");
    assert_eq!(bad(&quarantine), ["b"]);
}

#[test]
fn first_offer_serves_the_good_parts_whichever_is_bad() {
    let said = |parts| {
        let mut quarantine = Quarantine::default();
        quarantine.set_target(offer(parts));
        (settle(&mut quarantine), bad(&quarantine).join(" "))
    };
    let (offers, refused) = said(&[("=", "1"), ("a", "1"), ("b", "1!"), ("c", "1"), ("d", "1")]);
    assert_eq!((offers.last().unwrap().as_str(), refused.as_str()), ("=:1 a:1 b:closed c:1 d:1", "b"));
    let (offers, refused) = said(&[("=", "1!"), ("a", "1"), ("b", "1")]);
    assert_eq!((offers.iter().filter(|offer| !offer.starts_with('!')).count(), refused.as_str()), (0, "l"));
}

#[test]
fn part_that_the_error_names_is_tried_last() {
    let mut quarantine = settled(&[("=", "1")]);
    quarantine.set_target(offer(&[("=", "1"), ("aa", "1"), ("bb", "1!"), ("cc", "1"), ("dd", "1")]));
    let first = quarantine.next().unwrap();
    quarantine.on_nack(&first, "error in i/-/bb");
    assert_eq!(show(&quarantine.next().unwrap()), "=:1 aa:1 bb:closed cc:1 dd:1");
}

#[test]
fn two_that_depend_on_each_other_are_not_parted() {
    let mut quarantine = settled(&[("=", "1"), ("a", "x"), ("b", "1")]);
    // Of the two halves neither is good without the other.
    quarantine.set_target(offer(&[("=", "1"), ("a", "y"), ("b", "y@"), ("c", "1!"), ("d", "1")]));
    let said = settle(&mut quarantine);
    assert_eq!(said.last().unwrap(), "=:1 a:y b:y@ c:closed d:1", "{said:#?}");
    assert_eq!(bad(&quarantine), ["c"]);
}

#[test]
fn version_shows_refusals_to_another_control_plane() {
    let target = offer(&[("=", "1"), ("a", "1"), ("b", "1!")]);
    let mut first = Quarantine::default();
    first.set_target(target.clone());
    settle(&mut first);
    let mut second = Quarantine::default();
    second.set_target(target.clone());
    second.resume(&first.accepted.version);
    assert_eq!(settle(&mut second), [""; 0]);
    assert_eq!(bad(&second), ["b"]);
}

/// A control plane that wants `wanted` and reads the version of an offer that another one sent.
fn after_restart(before: &Quarantine, wanted: Parts<'_>) -> Quarantine {
    let mut second = Quarantine::default();
    second.set_target(offer(wanted));
    second.resume(&before.accepted.sent_version());
    second
}

#[test]
fn search_leaves_parts_accepted_from_another_control_plane() {
    let before = settled(&[("=", "1"), ("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
    let mut second =
        after_restart(&before, &[("=", "1"), ("a", "1"), ("b", "2!"), ("c", "2"), ("d", "1"), ("e", "1!")]);
    let said = settle(&mut second);
    assert!(said.iter().all(|one| one.contains("a:1") && one.contains("d:1")), "{said:#?}");
    assert_eq!(said.last().unwrap(), "=:1 a:1 b:closed c:2 d:1 e:closed", "of the old b nobody has the bytes");
    assert_eq!(bad(&second), ["b", "e"]);
    let mut third = after_restart(&second, &[("=", "1"), ("a", "2"), ("b", "2!"), ("c", "2"), ("d", "1"), ("e", "1!")]);
    assert_eq!(settle(&mut third), ["=:1 a:2 b:closed c:2 d:1 e:closed"], "what was refused is not sent again");
}

#[test]
fn part_with_unknown_bytes_stays_until_another_change() {
    let mut before = settled(&[("=", "1"), ("a", "1"), ("b", "1")]);
    let edited = [("=", "1"), ("a", "1"), ("b", "2!")];
    before.set_target(offer(&edited));
    settle(&mut before);
    assert_eq!(show(&before.accepted), "=:1 a:1 b:1");
    let mut second = after_restart(&before, &edited);
    assert_eq!(settle(&mut second), [""; 0]);
    assert_eq!(bad(&second), ["b"]);
    assert!(!second.is_in_sync());
    second.set_target(offer(&[("=", "1"), ("a", "2"), ("b", "2!")]));
    assert_eq!(settle(&mut second), ["=:1 a:2 b:closed"]);
    let mut third = after_restart(&before, &[("=", "1"), ("a", "1"), ("b", "3")]);
    assert_eq!(settle(&mut third), ["=:1 a:1 b:3"]);
    let mut fourth = after_restart(&before, &[("=", "1"), ("b", "2!")]);
    assert_eq!(settle(&mut fourth), ["=:1 b:closed"], "what is gone goes");
}

#[test]
fn one_bad_among_many_costs_few_trials_and_stops_nobody() {
    for (others, bad_ones, most) in [(1, 1, 6), (10, 1, 12), (1_000, 1, 26), (1_000, 3, 70), (10, 3, 24)] {
        for is_strange in [false, true] {
            let names: Vec<String> = (0..others + bad_ones).map(|number| format!("p{number:04}")).collect();
            let is_bad = |index: usize| {
                index.is_multiple_of(others / bad_ones + 1) && index / (others / bad_ones + 1) < bad_ones
            };
            let content = |index| if is_bad(index) { "1!" } else { "1" };
            let mut wanted = vec![("=", "1")];
            wanted.extend(names.iter().enumerate().map(|(index, name)| (name.as_str(), content(index))));
            let mut quarantine = Quarantine::default();
            quarantine.set_target(offer(&wanted));
            if is_strange {
                quarantine.resume("from another world");
            }
            let mut pushes = 0;
            while let Some(offer) = quarantine.next() {
                pushes += 1;
                match error(&offer) {
                    Some(message) => quarantine.on_nack(&offer, &message),
                    None => quarantine.on_ack(offer),
                }
            }
            assert!(pushes <= most, "{pushes} for {bad_ones} bad among {others}");
            assert_eq!(bad(&quarantine).len(), bad_ones);
            let served = quarantine.accepted.chunks.values().filter(|chunk| chunk.body().concat() == b"1").count();
            assert_eq!(served, others + 1, "the good ones and the base");
        }
    }
}

#[test]
fn bad_fallback_is_not_blamed_on_its_part() {
    // The fallback is bad, too: the closing chain itself.
    let is_bad = |offer: &Offer| show(offer).contains('!') || show(offer).contains("closed");
    let mut quarantine = Quarantine::default();
    quarantine.set_target(offer(&[("=", "1"), ("a", "1"), ("b", "1!"), ("c", "1"), ("d", "1")]));
    let mut steps = 0;
    while let Some(offer) = quarantine.next() {
        steps += 1;
        assert!(steps < 50);
        if is_bad(&offer) { quarantine.on_nack(&offer, "?") } else { quarantine.on_ack(offer) }
    }
    assert_eq!(show(&quarantine.accepted), "=:1 a:1 c:1 d:1");
}

fn parts() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((0..6_u8, 0..5_u8), 0..6)
}

proptest! {
    /// Contents 0 and 1 are bad. In the end every good part is served as wanted, and a part that was in service is never
    /// without service.
    #[test]
    fn good_ones_are_served_and_nobody_is_interrupted(
        sets in proptest::collection::vec((parts(), any::<bool>()), 1..6),
    ) {
        let mut quarantine = Quarantine::default();
        for (set, is_restarted) in sets {
            // The state of the node, with any control plane.
            let mut has = quarantine.accepted.clone();
            let texts: BTreeMap<String, String> = set.iter().map(|(part, content)| {
                (format!("p{part}"), format!("{content}{}", if *content < 2 { "!" } else { "" }))
            }).collect();
            let mut wanted = vec![("=", "1")];
            wanted.extend(texts.iter().map(|(part, content)| (part.as_str(), content.as_str())));
            if is_restarted && !has.chunks.is_empty() {
                quarantine = after_restart(&quarantine, &wanted);
            } else {
                quarantine.set_target(offer(&wanted));
            }
            let mut steps = 0;
            while let Some(offer) = quarantine.next() {
                steps += 1;
                prop_assert!(steps < 100);
                if let Some(message) = error(&offer) {
                    quarantine.on_nack(&offer, &message);
                    continue;
                }
                for (key, before) in &has.chunks {
                    let Some(wanted) = quarantine.target.chunks.get(key) else { continue };
                    // After a restart the bytes of parts that differ from the wanted ones are lost.
                    let is_safe = !is_restarted || wanted.version() == before.version();
                    prop_assert!(!is_safe || offer.chunks.contains_key(key), "{key:?} was {before:?}");
                }
                has = offer.clone();
                quarantine.on_ack(offer);
            }
            for (part, content) in &texts {
                let key = ChunkKey { resource: "l".into(), part: Some(part.as_str().into()) };
                let has = has.chunks.get(&key).map(|chunk| String::from_utf8(chunk.body().concat()).unwrap());
                let is_right = |has: &String| content.contains('!') && !has.contains('!') || *has == *content;
                prop_assert!(has.as_ref().is_some_and(is_right), "{part} is to be {content}, and is {has:?}");
            }
        }
    }
}
