//! Readings of what changed, and readings of everything, lead to the same.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

/// Files of a directory, and two that are links.
const NAMES: [&str; 6] = ["a.yaml", "b.yaml", "c.json", "d.yml", "link-1.yaml", "link-2.yaml"];

/// A change of files.
#[derive(Clone, Debug)]
enum FileEdit {
    Write(usize, usize),
    RenameOver(usize, usize),
    Rename(usize, usize),
    Delete(usize),
    Link(usize, &'static str),
    Directory(usize),
    /// As the kubelet changes a volume.
    Swap(usize),
    Referenced(usize, u8),
    Nothing(usize),
}

fn file_edit() -> impl Strategy<Value = FileEdit> {
    let (plain, all) = (0..4_usize, 0..6_usize);
    prop_oneof![
        8 => (plain.clone(), 0..contents().len()).prop_map(|(name, content)| FileEdit::Write(name, content)),
        4 => (plain.clone(), 0..contents().len()).prop_map(|(name, content)| FileEdit::RenameOver(name, content)),
        2 => (all.clone(), plain.clone()).prop_map(|(from, to)| FileEdit::Rename(from, to)),
        3 => all.clone().prop_map(FileEdit::Delete),
        2 => (all.clone(), prop::sample::select(vec!["nowhere", "..one", "..data/x.yaml", "a.yaml"]))
            .prop_map(|(name, target)| FileEdit::Link(name, target)),
        1 => plain.prop_map(FileEdit::Directory),
        2 => (0..2_usize).prop_map(FileEdit::Swap),
        2 => (0..2_usize, any::<u8>()).prop_map(|(file, content)| FileEdit::Referenced(file, content % 3)),
        1 => all.prop_map(FileEdit::Nothing),
    ]
}

fn contents() -> Vec<String> {
    let cluster = |name: &str, spec: &str| A.replace("a.test", name) + spec;
    let settings = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: a}\n";
    let of_settings = format!("{settings}spec: {{defaultClientCA: {{file: f0}}}}\n");
    let token = |file: &str| format!("spec: {{portcullis: {{references: {{token: {{file: {file}}}}}}}}}\n");
    vec![
        cluster("a.test", ""),
        cluster("a.test", "spec: {servers: []}\n"),
        cluster("b.test", &token("f0")),
        cluster("b.test", &token("f1")),
        format!("{}---\n{}", cluster("c.test", ""), cluster("d.test", &token("f1"))),
        format!("{}---\n{}", cluster("d.test", ""), cluster("c.test", "")),
        format!("{}---\n{of_settings}", cluster("e.test", "")),
        settings.to_owned(),
        "apiVersion: portcullis.dev/v1alpha1\nkind: Instance\nmetadata: {name: i}\n".to_owned(),
        "apiVersion: portcullis.dev/v1alpha1\nkind: DispatchPolicy\nmetadata: {name: p}\n".to_owned(),
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n".to_owned(),
        "a: [".to_owned(),
        String::new(),
    ]
}

/// A directory of files, beside one of files that are referred to.
struct World {
    _dir: tempfile::TempDir,
    objects: PathBuf,
    root: PathBuf,
}

impl World {
    fn new(is_root_inside: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let objects = dir.path().join("objects");
        let root = if is_root_inside { objects.join("keys") } else { dir.path().join("keys") };
        fs::create_dir_all(&objects).unwrap();
        fs::create_dir_all(&root).unwrap();
        for (version, content) in [("..one", 0), ("..two", 4)] {
            fs::create_dir(objects.join(version)).unwrap();
            fs::write(objects.join(version).join("x.yaml"), &contents()[content]).unwrap();
        }
        symlink("..one", objects.join("..data")).unwrap();
        for link in ["link-1.yaml", "link-2.yaml"] {
            symlink("..data/x.yaml", objects.join(link)).unwrap();
        }
        Self { _dir: dir, objects, root }
    }

    /// Makes a change. Returns the paths that notifications name.
    fn apply(&self, edit: &FileEdit) -> Vec<PathBuf> {
        let path = |name: &usize| self.objects.join(NAMES[*name]);
        let replace = |path: &Path, put: &dyn Fn(&Path)| {
            let coming = self.objects.join("..coming");
            remove(&coming);
            put(&coming);
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                remove(path);
            }
            fs::rename(&coming, path).unwrap();
            vec![coming, path.to_owned()]
        };
        match edit {
            FileEdit::Write(name, content) => {
                let path = path(name);
                if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                    remove(&path);
                }
                fs::write(&path, &contents()[*content]).unwrap();
                vec![path]
            }
            FileEdit::RenameOver(name, content) => {
                replace(&path(name), &|coming| fs::write(coming, &contents()[*content]).unwrap())
            }
            FileEdit::Rename(from, to) => {
                let (from, to) = (path(from), path(to));
                if from != to && from.symlink_metadata().is_ok() {
                    remove(&to);
                    fs::rename(&from, &to).unwrap();
                }
                vec![from, to]
            }
            FileEdit::Delete(name) => {
                remove(&path(name));
                vec![path(name)]
            }
            FileEdit::Link(name, target) => replace(&path(name), &|coming| symlink(target, coming).unwrap()),
            FileEdit::Directory(name) => {
                remove(&path(name));
                fs::create_dir(path(name)).unwrap();
                vec![path(name)]
            }
            FileEdit::Swap(version) => {
                let target = ["..one", "..two"][*version];
                replace(&self.objects.join("..data"), &|coming| symlink(target, coming).unwrap())
            }
            FileEdit::Referenced(file, content) => {
                let path = self.root.join(format!("f{file}"));
                match content {
                    0 => remove(&path),
                    other => fs::write(&path, [b'0' + *other]).unwrap(),
                }
                vec![path]
            }
            FileEdit::Nothing(name) => vec![path(name)],
        }
    }

    fn watched(&self, has_root: bool, settings: Option<&str>) -> Watched {
        let root = has_root.then(|| Root::new(&self.root));
        Watched::directory(&self.objects).references(root).settings_name(settings.map(str::to_owned))
    }
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// The paths that a look at all files finds.
fn polled(watched: &Watched, reading: &Reading) -> Option<BTreeSet<PathBuf>> {
    let (events, mut poll) = (ChangeEvents::default(), Poll::new(Instant::now()));
    poll.look(watched, reading, &events);
    while !poll.is_over() {
        poll.look(watched, reading, &events);
    }
    events.take(Instant::now()).paths
}

fn of(paths: impl IntoIterator<Item = PathBuf>) -> ChangedPaths {
    ChangedPaths { paths: Some(paths.into_iter().collect()), ..ChangedPaths::default() }
}

proptest! {
    #[test]
    fn reading_of_changes_is_as_one_of_everything(
        steps in prop::collection::vec((prop::collection::vec(file_edit(), 1..3), any::<bool>()), 1..20),
        (is_root_inside, has_root, has_name) in any::<(bool, bool, bool)>(),
    ) {
        let world = World::new(is_root_inside);
        let watched = world.watched(has_root, has_name.then_some("a"));
        let (mut of_changes, mut of_everything) = (Reading::default(), Reading::default());
        let mut set = of_changes.begin(&watched);
        of_everything.begin(&watched);
        for (edits, is_polled) in steps {
            let notified: BTreeSet<PathBuf> = edits.iter().flat_map(|edit| world.apply(edit)).collect();
            let paths = if is_polled { polled(&watched, &of_changes) } else { Some(notified) };
            let changed = ChangedPaths { paths, ..ChangedPaths::default() };
            set = of_changes.reread(&watched, &changed, NoticedAt::default()).set.unwrap_or(set);
            of_everything.reread(&watched, &ChangedPaths::default(), NoticedAt::default());
            prop_assert!(*set == of_everything.objects(&watched), "{edits:?}, {is_polled}");
            prop_assert!(*set == of_changes.objects(&watched), "{edits:?}, {is_polled}");
        }
    }
}

#[test]
fn link_to_a_directory_is_followed_when_a_file_takes_its_place() {
    let world = World::new(false);
    let watched = world.watched(false, None);
    let mut reading = Reading::default();
    world.apply(&FileEdit::Directory(0));
    reading.begin(&watched);
    world.apply(&FileEdit::Link(2, "a.yaml"));
    let found = polled(&watched, &reading);
    reading.reread(&watched, &of(found.unwrap()), NoticedAt::default());
    assert!(!polled(&watched, &reading).unwrap().contains(&world.objects.join("c.json")), "it is known");
    let written = world.apply(&FileEdit::Write(0, 0));
    let set = reading.reread(&watched, &of(written), NoticedAt::default()).set.unwrap();
    assert_eq!(set.clusters.len(), 4, "the file, the link to it and the links of the volume");
}

#[test]
fn edit_changes_what_is_notified_and_shares_all_else() {
    let world = World::new(false);
    let watched = world.watched(false, None);
    let write = |name: &str, content: usize| {
        fs::write(world.objects.join(name), &contents()[content]).unwrap();
        world.objects.join(name)
    };
    let mut reading = Reading::default();
    let paths = [write("a.yaml", 0), write("b.yaml", 2)];
    let before = reading.begin(&watched);
    let _ = [write("a.yaml", 1), write("b.yaml", 3)];
    let after = reading.reread(&watched, &of([paths[0].clone()]), NoticedAt::default()).set.unwrap();
    let is_shared: Vec<bool> = before.clusters.iter().zip(&after.clusters).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
    assert_eq!(is_shared, [false, true, true, true]);
    assert!(before.cluster_places.iter().zip(&after.cluster_places).all(|(a, b)| Arc::ptr_eq(&a.file, &b.file)));
    let found = polled(&watched, &reading).unwrap();
    assert!(found.contains(&paths[1]), "without a notification it is found later");
    let found = reading.reread(&watched, &of(found), NoticedAt::default()).set.unwrap();
    assert_eq!(found.clusters[1]["spec"]["portcullis"]["references"]["token"]["file"], "f1");
    assert!(reading.reread(&watched, &of(paths), NoticedAt::default()).set.is_none());
}

#[test]
fn look_at_many_files_leaves_time_for_edits() {
    let world = World::new(false);
    let watched = world.watched(false, None);
    (0..3_000).for_each(|number| fs::write(world.objects.join(format!("{number}.yaml")), "").unwrap());
    let mut reading = Reading::default();
    reading.begin(&watched);
    let (events, mut poll) = (ChangeEvents::default(), Poll::new(Instant::now()));
    poll.look(&watched, &reading, &events);
    assert!(!poll.is_over() && events.first().is_none());
    // Files may be read before its end.
    fs::remove_file(world.objects.join("7.yaml")).unwrap();
    reading.reread(&watched, &of([world.objects.join("7.yaml")]), NoticedAt::default());
    while !poll.is_over() {
        poll.look(&watched, &reading, &events);
    }
    assert!(events.first().is_some(), "files that are so new may have changed since");
}

#[test]
#[ignore = "a measurement: cargo test --release --workspace --lib -- --ignored --nocapture edit_of_one_file"]
fn edit_of_one_file_is_measured() {
    const FILES: usize = 10_000;
    let world = World::new(false);
    let watched = world.watched(true, None);
    let path = |number: usize| world.objects.join(format!("{number:05}.yaml"));
    let cluster = |number: usize, edit: usize| {
        A.replace("a.test", &format!("c{number}.test"))
            + &format!("spec: {{servers: [{{endpoint: 'https://{edit}'}}]}}\n")
    };
    (0..FILES).for_each(|number| fs::write(path(number), cluster(number, 0)).unwrap());
    let mut reading = Reading::default();
    let mut last = reading.begin(&watched);
    let mut times: [Vec<Duration>; 3] = Default::default();
    for edit in 1..20 {
        fs::write(path(FILES / 2), cluster(FILES / 2, edit)).unwrap();
        let since = Instant::now();
        last = reading.reread(&watched, &of([path(FILES / 2)]), NoticedAt::default()).set.unwrap();
        times[0].push(since.elapsed());
        let since = Instant::now();
        assert!(reading.objects(&watched) == *last);
        times[1].push(since.elapsed());
        let since = Instant::now();
        reading.reread(
            &watched,
            &ChangedPaths { writing: (0..FILES).map(path).collect(), paths: None },
            NoticedAt::default(),
        );
        times[2].push(since.elapsed());
    }
    times.iter_mut().for_each(|times| times.sort());
    let [edit, set, look] = times.map(|times| times[times.len() / 2]);
    println!(
        "{} files: an edit {edit:?}; the set of all and its comparison {set:?}; a look at all files {look:?}",
        last.clusters.len()
    );
}
