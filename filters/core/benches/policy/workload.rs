//! Policies and requests to measure with; the same for every run.

use portcullis_core::identity::UserInfo;
use portcullis_core::policy::Policies;
use portcullis_core::request_info::RequestInfo;
use portcullis_filter_config as config;

const RULES: usize = 10;
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const RESOURCES: usize = 40;
const API_GROUPS: usize = 12;

/// A sequence of numbers that look random (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % bound.max(1) as u64).unwrap_or(0)
    }

    fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One to `most` entries, 30 % of them exclusions.
    fn list(&mut self, most: usize, mut entry: impl FnMut(&mut Self) -> String) -> Vec<String> {
        let len = 1 + self.below(most);
        let mut entry = || {
            let text = entry(self);
            if self.percent(30) { format!("-{text}") } else { text }
        };
        (0..len).map(|_| entry()).collect()
    }
}

fn verb(dice: &mut Dice) -> String {
    VERBS.get(dice.below(VERBS.len())).copied().unwrap_or_default().to_owned()
}

fn api_group(dice: &mut Dice) -> String {
    match dice.below(API_GROUPS) {
        0 => String::new(),
        number => format!("group{number}.example.com"),
    }
}

fn resource(dice: &mut Dice) -> String {
    let resource = format!("resources{}", dice.below(RESOURCES));
    if dice.percent(10) { format!("{resource}/status") } else { resource }
}

/// The shapes of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each rule names users, groups or namespaces of its policy's own tenant. Everything else is random.
    Tenants,
    /// All rules choose from the same few users, groups and namespaces.
    Crowded,
    /// As `Crowded`, but without exclusions, and every list has four entries: the index grows with their product.
    Wide,
    /// Every rule is for all users but some, and the user who asks is always among them.
    AllButOne,
    /// Every rule is for all groups but one of four by turns, and the user who asks is in all four: no value alone excludes it.
    AllButFour,
    /// As `AllButFour`, but each rule excludes a user of its own besides: no two exclude the same.
    AllButFive,
}

/// Policies of ten rules each.
pub(crate) fn policies(shape: Shape, count: usize) -> Vec<config::Policy> {
    let mut dice = Dice(count as u64);
    let rule = |dice: &mut Dice, policy: usize| match shape {
        Shape::Tenants => tenant_rule(dice, policy, count),
        Shape::Crowded => crowded_rule(dice),
        Shape::Wide => wide_rule(dice),
        Shape::AllButOne => excluding_rule(dice),
        Shape::AllButFour => excluding_by_turns(dice),
        Shape::AllButFive => config::Rule { users: vec![format!("-user-{}", dice.roll())], ..excluding_by_turns(dice) },
    };
    let rules = |dice: &mut Dice, policy| (0..RULES).map(|_| rule(dice, policy)).collect();
    (0..count)
        .map(|policy| config::Policy {
            group: format!("g{}", policy % 8),
            flow_control_schema: None,
            log: false,
            deny: None,
            rules: rules(&mut dice, policy),
        })
        .collect()
}

fn common(dice: &mut Dice) -> config::Rule {
    config::Rule {
        verbs: dice.list(3, verb),
        api_groups: dice.list(2, api_group),
        resources: dice.list(3, resource),
        ..config::Rule::default()
    }
}

/// Lists of exclusions name others' users and namespaces.
fn tenant_rule(dice: &mut Dice, tenant: usize, tenants: usize) -> config::Rule {
    let user = |dice: &mut Dice, tenant: usize| match dice.below(10) {
        0 => format!("tenant-{tenant:05}-*"),
        number => format!("tenant-{tenant:05}-user-{number}"),
    };
    let mut rule = common(dice);
    let others = |dice: &mut Dice| format!("-{}", user(dice, dice.0 as usize % tenants));
    match dice.below(10) {
        0..5 => rule.users = vec![user(dice, tenant), user(dice, tenant), others(dice)],
        5..7 => {
            rule.user_groups = vec![format!("tenant-{tenant:05}")];
            rule.users = vec![others(dice), others(dice)];
        }
        7..9 => {
            rule.namespaces = vec![format!("tenant-{tenant:05}-ns-{}", dice.below(3))];
            rule.users = vec![others(dice)];
        }
        _ => {
            rule.non_resource_urls = dice.list(2, |dice| match dice.below(10) {
                0 => format!("/tenant-{tenant:05}/*"),
                number => format!("/tenant-{tenant:05}/path-{number}"),
            });
            rule.users = vec![user(dice, tenant)];
        }
    }
    rule
}

fn crowded_rule(dice: &mut Dice) -> config::Rule {
    let user = |dice: &mut Dice| match dice.below(10) {
        0 => format!("user-{}*", dice.below(9)),
        _ => format!("user-{}", dice.below(100)),
    };
    config::Rule {
        users: dice.list(2, user),
        user_groups: dice.list(2, |dice| format!("team-{}", dice.below(20))),
        namespaces: dice.list(2, |dice| format!("namespace-{}", dice.below(30))),
        ..common(dice)
    }
}

fn wide_rule(dice: &mut Dice) -> config::Rule {
    let mut four = |kind: &str, of: usize| (0..4).map(|_| format!("{kind}{}", dice.below(of))).collect::<Vec<_>>();
    config::Rule {
        users: four("user-", 100),
        user_groups: four("team-", 20),
        namespaces: four("namespace-", 30),
        resources: four("resources", RESOURCES),
        verbs: VERBS.iter().skip(dice.below(4)).take(4).map(|verb| (*verb).to_owned()).collect(),
        api_groups: vec!["*".into()],
        ..config::Rule::default()
    }
}

fn excluding_rule(dice: &mut Dice) -> config::Rule {
    let all = || vec!["*".to_owned()];
    let other = format!("-user-{}", dice.below(1000));
    config::Rule {
        verbs: all(),
        api_groups: all(),
        resources: all(),
        users: vec![other, "-mallory".into()],
        ..config::Rule::default()
    }
}

fn excluding_by_turns(dice: &mut Dice) -> config::Rule {
    let group = format!("-team-{}", dice.below(4));
    config::Rule { users: Vec::new(), user_groups: vec![group], ..excluding_rule(dice) }
}

/// A request and its user.
pub(crate) type Asked = (RequestInfo<'static>, UserInfo);

/// Which requests are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// A policy of the first tenth matches.
    Early,
    /// A policy of the last tenth matches.
    Late,
    /// None matches.
    Never,
    /// The user is in a thousand groups besides, most of which rules name; whatever matches.
    InManyGroups,
}

impl Hit {
    fn is(self, found: Option<usize>, count: usize) -> bool {
        match (self, found) {
            (Hit::Early, Some(at)) => at * 10 < count.max(10),
            (Hit::Late, Some(at)) => (at + 1) * 10 > count * 9,
            (Hit::Never, None) | (Hit::InManyGroups, _) => true,
            _ => false,
        }
    }
}

/// Up to 256 different requests of a kind; fewer, or none, where such are rare.
pub(crate) fn requests(shape: Shape, policies: &Policies, count: usize, hit: Hit) -> Vec<Asked> {
    let mut dice = Dice(7);
    let asked = (0..20_000).map(|_| {
        let tenant = match hit {
            Hit::Early => dice.below(count.div_ceil(10)),
            Hit::Late => count - 1 - dice.below(count.div_ceil(10)),
            Hit::Never | Hit::InManyGroups => dice.below(count * 2),
        };
        let (info, mut user) = request(shape, &mut dice, tenant);
        if hit == Hit::InManyGroups {
            user.groups.extend((0..1000).map(|number| format!("tenant-{number:05}")));
        }
        (info, user)
    });
    asked.filter(|(info, user)| hit.is(policies.first_match(info, user), count)).take(256).collect()
}

fn leak(text: String) -> &'static [u8] {
    text.leak().as_bytes()
}

fn request(shape: Shape, dice: &mut Dice, tenant: usize) -> Asked {
    let (name, group, namespace) = match shape {
        Shape::Tenants => (
            format!("tenant-{tenant:05}-user-{}", dice.below(10)),
            format!("tenant-{tenant:05}"),
            format!("tenant-{tenant:05}-ns-{}", dice.below(4)),
        ),
        Shape::Crowded | Shape::Wide => (
            format!("user-{}", dice.below(110)),
            format!("team-{}", dice.below(22)),
            format!("namespace-{}", dice.below(33)),
        ),
        Shape::AllButOne | Shape::AllButFour | Shape::AllButFive => {
            ("mallory".into(), "team-0".into(), "namespace".into())
        }
    };
    let mut groups = vec![group, "developers".into(), "oidc:everybody".into()];
    if matches!(shape, Shape::AllButFour | Shape::AllButFive) {
        groups.extend((1..4).map(|number| format!("team-{number}")));
    }
    let user = UserInfo::authenticated(name, String::new(), groups, Vec::new());
    let verb = leak(verb(dice)).into();
    if shape == Shape::Tenants && dice.percent(10) {
        let path = leak(format!("/tenant-{tenant:05}/path-{}", dice.below(10)));
        return (RequestInfo { verb, path, ..RequestInfo::default() }, user);
    }
    let info = RequestInfo {
        is_resource: true,
        verb,
        api_prefix: b"apis",
        api_group: leak(api_group(dice)),
        api_version: b"v1",
        namespace: leak(namespace),
        resource: leak(format!("resources{}", dice.below(RESOURCES))),
        subresource: if dice.percent(10) { b"status" } else { b"" },
        name: leak(format!("object-{}", dice.below(1000))).into(),
        ..RequestInfo::default()
    };
    (info, user)
}
