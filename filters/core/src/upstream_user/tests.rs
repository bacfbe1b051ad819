use super::*;
use crate::identity::Extra;

fn user(name: &str, groups: &[&str], extra: &[(&str, &str)]) -> UserInfo {
    let extra = extra.iter().map(|(key, value)| Extra { key: (*key).into(), values: vec![(*value).into()] });
    UserInfo::authenticated(name.into(), String::new(), groups.iter().map(|g| (*g).into()).collect(), extra.collect())
}

#[test]
fn user_becomes_one_line_for_each_part() {
    let user = UpstreamUser::new(UserInfo {
        uid: "42".into(),
        ..user("alice", &["dev", "a,b"], &[("example.com/Zone", "x"), ("100%", "y")])
    })
    .unwrap();
    let lines: Vec<_> = user.header_lines().iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(
        lines,
        [
            "impersonate-user: alice",
            "impersonate-uid: 42",
            "impersonate-group: dev",
            "impersonate-group: a,b",
            "impersonate-extra-example.com%2f%5aone: x",
            "impersonate-extra-100%25: y",
        ]
    );
}

#[test]
fn authenticating_proxy_tells_by_its_own_names() {
    let names = RequestHeaders { uid: String::new(), user: "x-auth-user".into(), ..RequestHeaders::default() };
    let alice = UserInfo { uid: "42".into(), ..user("alice", &["dev"], &[("example.com/Zone", "x")]) };
    let lines = |names: &RequestHeaders| -> Vec<String> {
        let user = UpstreamUser::with_header_names(&HeaderNames::from_config(names), alice.clone()).unwrap();
        user.header_lines().iter().map(|(name, value)| format!("{name}: {value}")).collect()
    };
    let (group, extra) = ("x-remote-group: dev", "x-remote-extra-example.com%2f%5aone: x");
    assert_eq!(lines(&names), ["x-auth-user: alice", group, extra]);
    let usual = RequestHeaders::default();
    assert_eq!(lines(&usual), ["x-remote-user: alice", "x-remote-uid: 42", group, extra]);
}

#[test]
fn authenticated_group_is_sent_where_no_server_adds_it() {
    let sent = |name: &str, groups: &[&str]| -> Vec<String> {
        let user =
            UserInfo { groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..user(name, &[], &[]) };
        let user = UpstreamUser::new(user).unwrap();
        let groups = user.header_lines().iter().filter(|(name, _)| name == "impersonate-group");
        groups.map(|(_, group)| group.clone()).collect()
    };
    let (yes, no) = ("system:authenticated", "system:unauthenticated");
    assert_eq!(sent("a", &["g", yes]), ["g"]);
    // Alone it keeps a service account from getting the groups of one.
    assert_eq!(sent("system:serviceaccount:ns:sa", &[yes]), [yes]);
    assert_eq!(sent("system:anonymous", &["g", yes]), ["g", yes]);
    assert_eq!(sent("a", &[no, yes]), [no, yes]);
    assert_eq!(sent("a", &[yes, "g"]), [yes, "g"]);
    assert_eq!(sent("a", &["g", yes, yes]), ["g", yes, yes]);
    assert!(sent("a", &[]).is_empty());
}

/// The groups that kube-apiserver finds in lines of either mode.
fn upstream_groups(name: &str, lines: &[(String, String)], is_impersonated: bool) -> Vec<String> {
    let of = |(header, value): &(String, String)| header.ends_with("-group").then(|| value.clone());
    let mut groups: Vec<String> = lines.iter().filter_map(of).collect();
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    if let Some((namespace, _)) = account.filter(|_| is_impersonated && groups.is_empty()) {
        groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    }
    let has = |group: &str| groups.iter().any(|one| one == group);
    if name == "system:anonymous" {
        let is_added = is_impersonated && !has("system:unauthenticated");
        groups.extend(is_added.then(|| "system:unauthenticated".to_owned()));
    } else if !has("system:authenticated") && !has("system:unauthenticated") {
        groups.push("system:authenticated".to_owned());
    }
    groups
}

proptest::proptest! {
    #[test]
    fn kube_apiserver_finds_the_groups_that_the_user_has(
        name in proptest::sample::select(vec!["a", "system:anonymous", "system:serviceaccount:ns:sa", "system:node:n"]),
        groups in proptest::collection::vec(
            proptest::sample::select(vec!["g", "h", "system:authenticated", "system:unauthenticated", "system:nodes"]),
            0..5,
        ),
    ) {
        let groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
        let user = UserInfo::authenticated(name.to_owned(), String::new(), groups, Vec::new());
        for (names, is_impersonated) in [
            (HeaderNames::impersonate(), true),
            (HeaderNames::from_config(&RequestHeaders::default()), false),
        ] {
            let sent = UpstreamUser::with_header_names(&names, user.clone()).unwrap();
            let found = upstream_groups(name, sent.header_lines(), is_impersonated);
            // The impersonated anonymous user has that group besides, with whatever lines.
            let is_anonymous = is_impersonated && name == "system:anonymous";
            let expected = user.groups.iter().filter(|group| !is_anonymous || *group != "system:unauthenticated");
            let found = found.iter().filter(|group| !is_anonymous || *group != "system:unauthenticated");
            proptest::prop_assert!(found.eq(expected), "{user:?}: {:?}", sent.header_lines());
        }
    }
}

#[test]
fn value_that_http_would_change_is_refused() {
    let refused = [
        user("", &[], &[]),
        user(" alice", &[], &[]),
        user("alice ", &[], &[]),
        user("al\r\nice", &[], &[]),
        user("al\0ice", &[], &[]),
        user("al\tice", &[], &[]),
        user("alice", &[" system:masters"], &[]),
        user("alice", &[""], &[]),
        user("alice", &[], &[("", "x")]),
        user("alice", &[], &[("k", " x")]),
        user("alice", &[], &[("portcullis.dev/original-user", "bob")]),
        user("alice", &[], &[("Portcullis.dev/x", "y")]),
    ];
    for user in refused {
        assert!(UpstreamUser::new(user.clone()).is_err(), "{user:?}");
    }
    assert!(UpstreamUser::new(user("alice", &["g"; 255], &[])).is_ok());
    assert_eq!(UpstreamUser::new(user("alice", &["g"; 256], &[])), Err(IdentityError::TooMany));
    assert_eq!(UpstreamUser::new(user(&"a".repeat(1 << 16), &[], &[])), Err(IdentityError::TooLarge));
    let key = "k".repeat(1 << 15);
    let many = UserInfo { extra: vec![Extra { key, values: vec!["v".to_owned(); 2] }], ..user("a", &[], &[]) };
    assert_eq!(UpstreamUser::new(many), Err(IdentityError::TooLarge));
    assert!(UpstreamUser::new(user("Zoë van der A", &["größe"], &[])).is_ok());
}

#[test]
fn authenticated_group_is_added_as_kube_apiserver_does() {
    assert_eq!(user("a", &["g"], &[]).groups, ["g", "system:authenticated"]);
    assert_eq!(user("a", &["system:authenticated", "g"], &[]).groups, ["system:authenticated", "g"]);
    assert_eq!(user("a", &["system:unauthenticated"], &[]).groups, ["system:unauthenticated"]);
    assert!(user("system:anonymous", &[], &[]).groups.is_empty());
}

#[test]
fn service_accounts_are_told_by_their_names() {
    let parts = |name: &str| {
        let user = user(name, &[], &[]);
        user.service_account().map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
    };
    assert_eq!(parts("system:serviceaccount:ns:sa"), Some(("ns".into(), "sa".into())));
    for other in [
        "system:serviceaccount:ns:",
        "system:serviceaccount::sa",
        "system:serviceaccount:a:b:c",
        "system:serviceaccount:NS:sa",
        "ns:sa",
    ] {
        assert_eq!(parts(other), None, "{other}");
    }
}

/// Counted by hand: the user's texts twice, with a line for each.
#[test]
fn user_weighs_what_it_takes() {
    let bytes = |groups: usize| {
        let groups = (0..groups).map(|number| format!("group-{number:04}")).collect();
        let user = UserInfo { name: "alice".into(), groups, ..UserInfo::default() };
        UpstreamUser::new(user).unwrap().bytes()
    };
    assert!((400..1_000).contains(&bytes(0)), "{}", bytes(0));
    let of_group = (bytes(200) - bytes(100)) / 100;
    assert!((100..400).contains(&of_group), "{of_group}");
}
