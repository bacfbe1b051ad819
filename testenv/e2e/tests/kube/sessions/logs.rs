use portcullis_harness::wait;

use super::place::{SOON, Way};

pub(super) fn logs_are_followed(way: &Way<'_>) {
    let again = || {
        let told = way.kubectl(["logs", &way.pod]).run_ok().unwrap();
        (told.matches("started\n").count() == 2).then_some(told)
    };
    let before = wait::until(&format!("{way}: the main process has started again, after bye"), SOON, again).unwrap();
    assert!(before.starts_with("started\n"), "{way}: {before}");
    assert_eq!(way.kubectl(["logs", "--tail=1", &way.pod]).run_ok().unwrap(), "started\n", "{way}");
    let follows = way.kubectl(["logs", "-f", &way.pod]).spawn().unwrap();
    let sees = |text: &str| {
        let seen = || follows.stdout().contains(text).then_some(());
        wait::until(&format!("{way}: {text} in the log"), SOON, seen).unwrap();
    };
    sees(&before);
    for word in ["three", "four"] {
        let attached = way.kubectl(["attach", "-i", &way.pod]).stdin_piped().spawn().unwrap();
        attached.write(format!("{word}\n").as_bytes()).unwrap();
        sees(&format!("out {word}\n"));
    }
    assert!(follows.is_running() && follows.log().is_empty(), "{way}: {}", follows.log());
}
