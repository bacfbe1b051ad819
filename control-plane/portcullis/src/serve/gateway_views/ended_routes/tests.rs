use super::*;

/// The name of the routes to a cluster, or to an upstream by its key.
fn routes(cluster: &str) -> String {
    format!("lab/infra/edge/https/{cluster}/routes")
}

fn numbered(cluster: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| routes(&format!("{cluster}{number:04}"))).collect()
}

/// A Gateway, its routes, and the snapshot that its Envoys have.
struct World {
    ended: EndedRoutes,
    /// Those that answer 421 are on demand.
    before: Vec<(String, bool)>,
    /// Of all routes that were led so.
    namespaces: Vec<(String, &'static str)>,
    /// Of each route that leads to servers.
    bytes: usize,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let (before, namespaces, now) = (Vec::new(), Vec::new(), Instant::now());
        Self { ended: EndedRoutes::default(), before, namespaces, bytes: 1, now }
    }

    /// Serves these routes alone. Returns those that lead to servers.
    fn serve(&mut self, names: &[&[String]]) -> Vec<String> {
        let names = names.concat();
        let route = |name: &String| Arc::new(Resource { value: vec![1; self.bytes], ..misdirected_routes(name) });
        let group: ResourceGroup = names.iter().map(route).collect();
        let before = self.snapshot();
        let mut namespaces = ClusterRouteNamespaces::default();
        let is_served: HashSet<&String> = names.iter().collect();
        for (name, namespace) in self.namespaces.iter().filter(|(name, _)| is_served.contains(name)) {
            let (listener, cluster) = place_of_routes(name).unwrap();
            namespaces.add(listener, cluster, namespace);
        }
        let served = self.ended.follow(&before, Some(&group), Arc::new(namespaces), self.now);
        let served = served.iter().flat_map(|group| group.iter());
        let before = served.map(|one| (one.name.to_string(), one.value.first() != Some(&1)));
        self.before = before.chain(self.kept().into_iter().map(|name| (name, true))).collect();
        self.before.iter().filter(|(_, is_misdirected)| !is_misdirected).map(|(name, _)| name.clone()).collect()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.before.iter().map(|(name, is_misdirected)| {
            let of = |bytes: usize| portcullis_xds::Resource::new(vec![1; bytes]);
            let one = if *is_misdirected { of(1).on_demand() } else { of(self.bytes) };
            (type_urls::route_configuration(), name.clone(), one)
        }))
    }

    /// Routes of a namespace have these configurations, from now on.
    fn lead(&mut self, namespace: &'static str, names: &[String]) {
        self.namespaces.extend(names.iter().map(|name| (name.clone(), namespace)));
    }

    /// Those that answer 421 in the place of ended ones.
    fn kept(&self) -> Vec<String> {
        self.ended.tombstones().iter().map(|one| one.name.to_string()).collect()
    }
}

#[test]
fn routes_that_are_gone_answer_until_they_are_back() {
    let (mut world, [a, b]) = (World::new(), ["a", "b"].map(|name| [routes(name)]));
    world.serve(&[&a, &b]);
    world.serve(&[&b]);
    assert_eq!(world.kept(), a);
    let first = world.ended.tombstones();
    world.serve(&[&b]);
    assert!(Arc::ptr_eq(&first[0], &world.ended.tombstones()[0]), "it is the same one");
    let back = world.serve(&[&a]);
    assert_eq!((world.kept(), back), (b.to_vec(), a.to_vec()));
    let before = world.snapshot();
    assert!(world.ended.follow(&before, None, Arc::default(), world.now).is_none());
    assert_eq!(world.kept(), [a, b].concat(), "the Gateway may be served again, and connections of before are there");
}

/// One author makes an upstream and a route to it, and deletes both, over and over.
#[test]
fn ended_routes_of_one_namespace_hold_up_no_other_ones() {
    let (mut world, other) = (World::new(), [routes("b/prod")]);
    let mut opened = Vec::new();
    for number in 0..300 {
        opened.extend(world.serve(&[&numbered("a/u", number..number + 1)]));
    }
    assert_eq!(
        opened.len(),
        MAX_OF_SERVERS.number + 1,
        "the one beyond the number was open when the others were not too many"
    );
    assert_eq!(world.serve(&[&other, &numbered("a/u", 3_000..3_001)]), other, "its own new route alone is held up");
    assert_eq!(world.kept(), opened, "no connection of before is led elsewhere");
    world.now += KEPT_FOR - Duration::from_secs(1);
    assert_eq!(world.serve(&[&numbered("a/u", 3_000..3_001)]), Vec::<String>::new());
    assert_eq!(world.kept()[..opened.len()], opened);
    assert_eq!(world.ended.next_expiry(), Some(world.now + Duration::from_secs(1)));
    world.now += Duration::from_secs(1);
    assert_eq!(world.serve(&[&numbered("a/u", 3_000..3_001)]).len(), 1);
    assert_eq!((world.kept(), world.ended.next_expiry()), (other.to_vec(), None));
}

/// A grant may be for all clusters, so that a route may lead to one after the other.
#[test]
fn ended_routes_to_clusters_hold_up_no_other_cluster() {
    let mut world = World::new();
    for number in 0..300 {
        let names = numbered("c", number..number + 1);
        assert_eq!(world.serve(&[&names]), names);
    }
    for listener in 0..260 {
        world.serve(&[&[format!("lab/infra/edge/l{listener}/prod/routes")]]);
    }
    let [of_cluster, of_namespace] = [[routes("prod")], [routes("prod/x")]];
    assert_eq!(world.serve(&[&of_cluster, &of_namespace]), of_namespace, "a namespace is no cluster of its name");
}

/// The configurations of four clusters at each of 64 listeners.
fn wide(step: usize) -> Vec<String> {
    let names = (0..64).flat_map(|listener| (0..4).map(move |cluster| (listener, step * 4 + cluster)));
    names.map(|(listener, cluster)| format!("lab/infra/edge/l{listener}/c{cluster}/routes")).collect()
}

/// A grant without a name, and a Gateway with many listeners.
#[test]
fn ended_routes_to_clusters_hold_up_no_namespace() {
    let mut world = World::new();
    for step in 0..20 {
        let (upstream, clusters) = (numbered("a/u", step..step + 1), wide(step));
        assert_eq!(world.serve(&[&upstream, &clusters]), [upstream, clusters].concat(), "{step}");
    }
    assert!(world.kept().len() > MAX_OF_ALL.number);
}

/// Routes that one author leads to clusters have a bound, and hold up no other author's routes there.
#[test]
fn ended_routes_to_clusters_are_of_the_routes_namespace() {
    let mut world = World::new();
    let mut opened = Vec::new();
    for step in 0..20 {
        world.lead("a", &wide(step));
        opened.push(world.serve(&[&wide(step)]).len());
    }
    assert_eq!(opened, [&[256; 3][..], &[0; 17]].concat(), "at most twice as many as are served");
    let (next, both) = (wide(30)[..64].to_vec(), wide(31)[..64].to_vec());
    world.lead("a", &[next.clone(), both.clone()].concat());
    world.lead("b", &both);
    assert_eq!(world.serve(&[&next, &both]), both);
    let kept = world.kept();
    world.now += KEPT_FOR;
    assert_eq!(world.ended.next_expiry(), Some(world.now));
    assert_eq!((world.serve(&[&next, &both]).len(), kept.len()), (128, 3 * 256));
}

/// The same for all who lead to clusters.
#[test]
fn ended_routes_of_many_authors_to_clusters_are_bounded() {
    let mut world = World::new();
    let names: Vec<&'static str> = (0..40).map(|number| &*format!("n{number:02}").leak()).collect();
    for round in 0..10 {
        let mut all = Vec::new();
        for (number, namespace) in names.iter().copied().enumerate() {
            let own = numbered("c", (round * 40 + number) * 20..(round * 40 + number + 1) * 20);
            world.lead(namespace, &own);
            all.extend(own);
        }
        world.serve(&[&all]);
    }
    let kept = world.kept().len();
    assert!((MAX_OF_ALL.number..=MAX_OF_ALL.number + 40 * 20).contains(&kept), "{kept}");
    let quiet = [routes("quiet")];
    world.lead("quiet", &quiet);
    assert_eq!(world.serve(&[&quiet]), quiet);
}

#[test]
fn route_that_ends_unopened_is_not_kept() {
    let mut world = World::new();
    for number in 0..MAX_OF_SERVERS.number + 2 {
        world.serve(&[&numbered("a/u", number..number + 1)]);
    }
    assert_eq!(world.serve(&[&numbered("a/u", 1_000..1_001)]), Vec::<String>::new());
    let kept = world.kept();
    assert!(world.ended.next_expiry().is_some());
    world.serve(&[]);
    assert_eq!((world.kept(), world.ended.next_expiry()), (kept, None), "no connection has anything of it");
}

/// A control plane that starts knows the resources alone.
#[test]
fn route_that_was_withheld_stays_so_after_a_restart() {
    let mut world = World::new();
    for number in 0..MAX_OF_SERVERS.number + 1 {
        world.serve(&[&numbered("a/u", number..number + 1)]);
    }
    let (open, new) = (numbered("a/u", 256..257), numbered("a/u", 1_000..1_001));
    assert_eq!(world.serve(&[&[routes("b/prod")], &open]), [&[routes("b/prod")][..], &open].concat());
    world.serve(&[&new]);
    assert_eq!(world.serve(&[&new]), Vec::<String>::new());
    let kept = world.kept();
    world.ended = EndedRoutes::default();
    let back = [routes("b/prod")];
    assert_eq!(world.serve(&[&back, &new]), back, "one that was in the place of an ended one is opened");
    assert_eq!(world.kept(), kept.into_iter().filter(|name| *name != back[0]).collect::<Vec<_>>());
    world.now += KEPT_FOR;
    assert_eq!(world.serve(&[&new]), new);
}

/// Many namespaces together take bounded memory, and one that has few is served.
#[test]
fn ended_routes_of_all_owners_are_bounded() {
    let mut world = World::new();
    for round in 0..12 {
        let all: Vec<Vec<String>> =
            (0..100).map(|one| numbered(&format!("n{one:02}/u"), round * 5..round * 5 + 5)).collect();
        world.serve(&[&all.concat()]);
    }
    let kept = world.kept().len();
    assert!((MAX_OF_ALL.number..=MAX_OF_ALL.number + 100 * (KEPT_OF_UPSTREAMS.number + 5)).contains(&kept), "{kept}");
    let quiet = [routes("quiet/prod")];
    assert_eq!(world.serve(&[&quiet, &numbered("n00/u", 900..901)]), quiet);
    world.now += KEPT_FOR;
    assert_eq!(world.serve(&[&quiet, &numbered("n00/u", 900..901)]).len(), 2);
    assert!(world.kept().is_empty(), "all are old enough, and were too many");
}

/// Those of a cluster are as few as a Gateway has listeners, and routes of all tenants lead there.
#[test]
fn ended_routes_of_many_namespaces_hold_up_no_cluster() {
    let mut world = World::new();
    for round in 0..12 {
        let all: Vec<Vec<String>> =
            (0..100).map(|one| numbered(&format!("n{one:02}/u"), round * 5..round * 5 + 5)).collect();
        let of_cluster = format!("lab/infra/edge/l{round}/prod/routes");
        world.serve(&[&all.concat(), &[of_cluster]]);
    }
    for listener in 12..64 {
        let of_cluster = [format!("lab/infra/edge/l{listener}/prod/routes")];
        assert_eq!(world.serve(&[&of_cluster]), of_cluster);
    }
}

#[test]
fn routes_that_all_get_other_names_are_served() {
    for cluster in ["a/u", "c"] {
        let (mut world, second) = (World::new(), numbered(cluster, 3_000..6_000));
        assert_eq!(world.serve(&[&numbered(cluster, 0..3_000)]).len(), 3_000);
        assert_eq!(world.serve(&[&second]), second);
        assert_eq!(world.kept().len(), 3_000);
    }
}

/// Streams keep what has ended while its connections drain.
#[test]
fn ended_routes_of_one_namespace_are_bounded_in_bytes() {
    let mut world = World { bytes: 8 * MIB, ..World::new() };
    world.lead("a", &numbered("a/u", 0..30));
    let mut opened = Vec::new();
    for number in 0..10 {
        opened.extend(world.serve(&[&numbered("a/u", number..number + 1)]));
    }
    assert_eq!(opened, numbered("a/u", 0..9), "nine that have ended have 72 MiB");
    let (other, next) = ([routes("b/prod")], numbered("a/u", 20..21));
    assert_eq!(world.serve(&[&other, &next]), other);
    assert_eq!((world.kept(), world.ended.next_expiry()), (opened, Some(world.now + KEPT_FOR)));
    world.now += KEPT_FOR;
    assert_eq!(world.serve(&[&other, &next]).len(), 2);
    assert!(world.kept().is_empty());
}

/// As many bytes as are served may always end.
#[test]
fn routes_that_all_get_other_names_may_be_large() {
    let (mut world, second) = (World { bytes: 8 * MIB, ..World::new() }, numbered("a/u", 20..30));
    world.lead("a", &numbered("a/u", 0..30));
    assert_eq!(world.serve(&[&numbered("a/u", 0..10)]).len(), 10);
    assert_eq!(world.serve(&[&second]), second);
}

/// One author has large policies at one listener after the other.
#[test]
fn large_ended_routes_to_a_cluster_hold_up_no_other_author() {
    let at = |listener: usize| [format!("lab/infra/edge/l{listener}/prod/routes")];
    let mut world = World { bytes: 8 * MIB, ..World::new() };
    for listener in 0..9 {
        world.lead("a", &at(listener));
        assert_eq!(world.serve(&[&at(listener)]), at(listener));
    }
    world.lead("a", &at(9));
    world.lead("b", &at(10));
    assert_eq!(world.serve(&[&at(9), &at(10)]), at(10));
}

/// Four namespaces have large policies and one has none, and the Gateway's author renames their listener.
#[test]
fn large_ended_routes_are_shared_by_all_who_lead_there() {
    for servers in ["prod", "v/prod"] {
        let at = |listener: usize| [format!("lab/infra/edge/l{listener}/{servers}/routes")];
        let mut world = World { bytes: 4 * 8 * MIB + 5, ..World::new() };
        let mut opened = Vec::new();
        for listener in 0..11 {
            for namespace in ["a", "b", "c", "d", "t"] {
                world.lead(namespace, &at(listener));
            }
            opened.extend(world.serve(&[&at(listener)]));
        }
        assert_eq!(opened, (0..10).flat_map(at).collect::<Vec<_>>(), "ten that have ended are 64 MiB for each of five");
    }
}

/// A guest by a grant has large policies at one listener after the other.
#[test]
fn large_ended_routes_of_a_guest_hold_up_no_upstream() {
    let at = |listener: usize, upstream: &str| [format!("lab/infra/edge/l{listener}/{upstream}/routes")];
    let mut world = World { bytes: 8 * MIB, ..World::new() };
    for listener in 0..9 {
        world.lead("e", &at(listener, "v/prod"));
        assert_eq!(world.serve(&[&at(listener, "v/prod")]), at(listener, "v/prod"));
    }
    let (last, own, shared) = (at(9, "v/prod"), at(0, "v/new"), at(10, "v/prod"));
    world.lead("e", &[&last[..], &shared].concat());
    world.lead("v", &[&own[..], &shared].concat());
    assert_eq!(world.serve(&[&last]), Vec::<String>::new());
    assert_eq!(world.ended.next_expiry(), Some(world.now + KEPT_FOR));
    assert_eq!(world.serve(&[&last, &own, &shared]), [&own[..], &shared].concat());
}

/// Bounds for clusters are none for upstreams.
#[test]
fn ended_routes_to_clusters_hold_up_none_to_upstreams() {
    let mut world = World::new();
    for step in 0..4 {
        world.lead("a", &wide(step));
        world.serve(&[&wide(step)]);
    }
    let (upstream, cluster) = ([routes("a/u")], [routes("c900")]);
    world.lead("a", &[&upstream[..], &cluster].concat());
    assert_eq!(world.serve(&[&upstream, &cluster]), upstream);
}

#[test]
fn ended_routes_of_all_owners_are_bounded_in_bytes() {
    let mut world = World { bytes: 8 * MIB, ..World::new() };
    for number in 0..66 {
        let own = [routes(&format!("n{number:02}/u"))];
        world.lead(format!("n{number:02}").leak(), &own);
        assert_eq!(world.serve(&[&own]), own);
    }
    let next = |number: usize| [routes(&format!("n00/v{number}"))];
    world.lead("n00", &[next(0), next(1), next(2)].concat());
    for number in 0..2 {
        assert_eq!(world.serve(&[&next(number)]), next(number), "it has few bytes");
    }
    let quiet = [routes("quiet/prod")];
    world.lead("quiet", &quiet);
    assert_eq!(world.serve(&[&next(2), &quiet]), quiet);
}
