use proptest::prelude::*;

use super::*;

fn claims(name: &str, created: Option<&str>, server_names: &[&str]) -> Claims {
    let mut names = vec![(name.to_owned(), ClaimKind::Name)];
    names.extend(server_names.iter().map(|name| ((*name).to_owned(), ClaimKind::ServerName)));
    Claims {
        name: name.to_owned(),
        creation_timestamp: created.map(str::to_owned),
        names,
        previously_owned: Vec::new(),
    }
}

fn holding(claims: Claims, previously_owned: &str) -> Claims {
    Claims { previously_owned: vec![previously_owned.to_owned()], ..claims }
}

/// Which objects lose which names.
fn losers(claims: &[Claims]) -> Vec<(usize, String)> {
    losers_where(claims, WildcardSubdomains::Reserved)
}

fn losers_where(claims: &[Claims], below: WildcardSubdomains) -> Vec<(usize, String)> {
    let lost = conflicts(&claims.iter().collect::<Vec<_>>(), below);
    let lost = lost.into_iter().enumerate();
    lost.flat_map(|(index, lost)| lost.into_iter().map(move |lost| (index, lost.name))).collect()
}

fn lost(index: usize, name: &str) -> Vec<(usize, String)> {
    vec![(index, name.to_owned())]
}

#[test]
fn name_has_one_owner() {
    let (old, new) = (Some("2024-01-01T00:00:00Z"), Some("2025-01-01T00:00:00Z"));
    assert_eq!(losers(&[claims("a", None, &[]), claims("b", None, &["x"])]), []);
    let rows = [
        ([claims("b", old, &["a"]), claims("a", new, &[])], lost(0, "a"), "metadata.name before serverNames"),
        ([claims("a", new, &["x", "y"]), claims("b", old, &["x"])], lost(0, "x"), "the older one"),
        ([claims("a", None, &["x"]), claims("b", old, &["x"])], lost(0, "x"), "a date before none"),
        ([claims("b", old, &["x"]), claims("a", old, &["x"])], lost(0, "x"), "then by name"),
        ([claims("a", None, &[]), claims("a", None, &[])], lost(1, "a"), "then the first"),
        ([claims("a", old, &["x"]), holding(claims("b", new, &["x"]), "x")], lost(0, "x"), "whoever had it"),
        ([claims("a", old, &[]), holding(claims("b", new, &["a"]), "a")], lost(0, "a"), "whatever comes later"),
        (
            [holding(claims("a", new, &["x"]), "x"), holding(claims("b", old, &["x"]), "x")],
            lost(0, "x"),
            "of two who had it the older one",
        ),
        ([claims("a", old, &["x"]), holding(claims("b", new, &[]), "x")], vec![], "a name held and not claimed"),
    ];
    for (objects, wanted, why) in rows {
        assert_eq!(losers(&objects), wanted, "{why}");
    }
    let found = conflicts(&[&claims("a", None, &[]), &claims("b", None, &["a"])], WildcardSubdomains::Reserved);
    let problem = Problem::new("spec.secureServing.serverNames", "the name a belongs to the UpstreamCluster a");
    assert_eq!(found[1][0].problem, problem);
}

#[test]
fn name_below_a_wildcard_belongs_to_whoever_has_the_wildcard() {
    let (old, new) = (Some("2024-01-01T00:00:00Z"), Some("2025-01-01T00:00:00Z"));
    let wild = |created| claims("w.test", created, &["*.a.test"]);
    let thief = |created, name: &str| claims("thief.test", created, &[name]);
    let rows = [
        ([wild(old), thief(new, "x.a.test")], lost(1, "x.a.test"), "the older one"),
        ([wild(old), claims("x.a.test", new, &[])], lost(1, "x.a.test"), "metadata.name, too"),
        ([wild(old), thief(new, "*.x.a.test")], lost(1, "*.x.a.test"), "a narrower wildcard"),
        ([wild(old), thief(new, "x.y.a.test")], lost(1, "x.y.a.test"), "at any depth"),
        ([wild(old), thief(new, "a.test")], vec![], "a wildcard does not stand for nothing"),
        ([wild(old), thief(new, "xa.test")], vec![], "nor for a part of a label"),
        ([wild(new), thief(old, "x.a.test")], vec![], "who was there before the wildcard"),
        ([wild(None), thief(None, "x.a.test")], vec![], "without a date by name"),
        ([claims("a", None, &["*.a.test"]), thief(None, "x.a.test")], lost(1, "x.a.test"), "by name the other way"),
        ([wild(None), thief(new, "x.a.test")], vec![], "a date before none"),
        ([holding(wild(new), "*.a.test"), thief(old, "x.a.test")], lost(1, "x.a.test"), "who had the wildcard"),
        ([holding(wild(old), "*.a.test"), holding(thief(new, "x.a.test"), "x.a.test")], vec![], "both had theirs"),
        ([wild(old), holding(thief(new, "x.a.test"), "x.a.test")], vec![], "a newcomer's wildcard takes nothing"),
        ([claims("a.test", old, &["*.a.test", "x.a.test"]), claims("b.test", new, &[])], vec![], "one's own"),
    ];
    for (objects, wanted, why) in rows {
        assert_eq!(losers(&objects), wanted, "{why}");
        let objects: Vec<_> = objects.into_iter().rev().collect();
        let wanted: Vec<_> = wanted.into_iter().map(|(index, name)| (1 - index, name)).collect();
        assert_eq!(losers(&objects), wanted, "{why}, whichever is read first");
        assert_eq!(losers_where(&objects, WildcardSubdomains::Allowed), [], "{why}, but all is allowed");
    }
}

#[test]
fn closest_owned_wildcard_counts() {
    let [first, second, third] = ["2021-01-01T00:00:00Z", "2022-01-01T00:00:00Z", "2023-01-01T00:00:00Z"].map(Some);
    // The narrower wildcard was given before: below it the wider one has nothing to say.
    let wide = claims("wide", first, &["*.test"]);
    let narrow = holding(claims("narrow", second, &["*.a.test", "x.a.test"]), "*.a.test");
    assert_eq!(losers(&[wide.clone(), narrow.clone()]), []);
    assert_eq!(losers(&[wide.clone(), narrow, claims("z", third, &["y.a.test"])]), lost(2, "y.a.test"));
    // A wildcard that is lost takes nothing.
    let lost_wildcard = claims("narrow", second, &["*.a.test"]);
    let found = conflicts(&[&wide, &lost_wildcard, &claims("z", third, &["y.a.test"])], WildcardSubdomains::Reserved);
    let problem = &found[2][0].problem;
    assert_eq!(problem.message, "the name y.a.test is covered by *.test, which belongs to the UpstreamCluster wide");
    assert_eq!(found[1][0].name, "*.a.test");
    // The strongest claimant that may not have the name leaves it to the next one that may.
    let named_so = claims("x.test", third, &[]);
    let older = claims("older", first, &["x.test"]);
    let between = claims("between", second, &["*.test"]);
    assert_eq!(losers(&[named_so, between, older]), lost(0, "x.test"));
}

const NAMES: [&str; 7] = ["*.test.a", "x.test.a", "*.x.test.a", "y.x.test.a", "z.y.x.test.a", "b.test.a", "10.0.0.1"];

/// An object that claims some of a few names, with or without a date, and has some of them already.
fn any_object() -> impl Strategy<Value = (u8, u16, u16)> {
    (0..4_u8, 0..128_u16, 0..128_u16)
}

fn objects(drawn: &[(u8, u16, u16)]) -> Vec<Claims> {
    let chosen = |bits: u16| NAMES.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, name)| *name);
    let mut given = std::collections::BTreeSet::new();
    let object = |(index, (year, wanted, had)): (usize, &(u8, u16, u16))| {
        let created = (*year > 0).then(|| format!("202{year}-01-01T00:00:00Z"));
        let wanted: Vec<_> = chosen(*wanted).collect();
        let mut claims = claims(&format!("o{index}.z"), created.as_deref(), &wanted);
        // A name was given to one object at most.
        claims.previously_owned =
            chosen(*had).filter(|name| wanted.contains(name) && given.insert(*name)).map(str::to_owned).collect();
        claims
    };
    drawn.iter().enumerate().map(object).collect()
}

/// The owned names, by object.
fn given(objects: &[Claims]) -> std::collections::BTreeMap<String, Vec<String>> {
    let lost = conflicts(&objects.iter().collect::<Vec<_>>(), WildcardSubdomains::Reserved);
    let own = |(claims, lost): (&Claims, Vec<LostName>)| {
        let names = claims.names.iter().map(|(name, _)| name.clone());
        (claims.name.clone(), names.filter(|name| lost.iter().all(|lost| lost.name != *name)).collect())
    };
    objects.iter().zip(lost).map(own).collect()
}

/// As Envoy chooses: the name itself, else the longest wildcard.
fn server_of<'g>(given: &'g std::collections::BTreeMap<String, Vec<String>>, name: &str) -> Option<&'g str> {
    let mut rest = name;
    let mut wanted = vec![name.to_owned()];
    while let Some((_, parent)) = rest.split_once('.') {
        wanted.push(format!("*.{parent}"));
        rest = parent;
    }
    wanted.iter().find_map(|wanted| {
        let owner = |(owner, names): (&'g String, &'g Vec<String>)| names.contains(wanted).then_some(owner.as_str());
        given.iter().find_map(owner)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn order_of_arrival_decides_nothing(
        drawn in proptest::collection::vec(any_object(), 1..6), turn in 0..6_usize
    ) {
        let mut turned = objects(&drawn);
        let before = given(&turned);
        let count = turned.len();
        turned.rotate_left(turn % count);
        prop_assert_eq!(given(&turned), before.clone());
        turned.reverse();
        prop_assert_eq!(given(&turned), before);
    }

    /// Each name has one owner, and keeps it once the status says so, whatever later objects claim.
    #[test]
    fn owner_of_a_name_keeps_it(
        drawn in proptest::collection::vec(any_object(), 1..5),
        newcomers in proptest::collection::vec((0..4_u8, 0..128_u16), 1..4),
    ) {
        let mut all = objects(&drawn);
        let first = given(&all);
        let mut names: Vec<_> = first.values().flatten().collect();
        let count = names.len();
        names.sort();
        names.dedup();
        prop_assert_eq!(names.len(), count, "an owner each");
        for claims in &mut all {
            claims.previously_owned = first[&claims.name].clone();
        }
        prop_assert_eq!(&given(&all), &first, "the status changes nothing");
        for (number, (year, wanted)) in newcomers.iter().enumerate() {
            let mut newcomer = objects(&[(*year, *wanted, 0)]).remove(0);
            newcomer.name = format!("a{number}.z");
            newcomer.names[0].0.clone_from(&newcomer.name);
            all.insert(number, newcomer);
        }
        let then = given(&all);
        for (owner, names) in &first {
            prop_assert_eq!(&then[owner], names);
        }
    }

    /// Without any status: a later object changes nothing for a host that an older one serves.
    #[test]
    fn no_host_goes_to_a_younger_object(
        drawn in proptest::collection::vec((1..2_u8, 0..128_u16, Just(0)), 1..5), wanted in 0..128_u16
    ) {
        let mut all = objects(&drawn);
        let before = given(&all);
        let mut newcomer = objects(&[(3, wanted, 0)]).remove(0);
        newcomer.name = "a.z".to_owned();
        newcomer.names[0].0.clone_from(&newcomer.name);
        all.insert(0, newcomer);
        let after = given(&all);
        for host in ["x.test.a", "y.x.test.a", "z.y.x.test.a", "b.test.a", "q.test.a", "q.x.test.a", "10.0.0.1"] {
            if let Some(owner) = server_of(&before, host) {
                prop_assert_eq!(server_of(&after, host), Some(owner), "{}", host);
            }
        }
    }
}
