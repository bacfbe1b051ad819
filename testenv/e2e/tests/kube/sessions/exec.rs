use std::process::Command;

use portcullis_harness::wait;

use super::place::{SOON, Way};

pub(super) fn outputs_and_exit_code_arrive_apart(way: &Way<'_>) {
    let script = "echo to-out; echo to-err >&2; exit 7";
    let output = way.kubectl(["exec", &way.pod, "--", "sh", "-c", script]).run().unwrap();
    assert_eq!(output.status.code(), Some(7), "{way}: {output:?}");
    assert_eq!(output.stdout, "to-out\n", "{way}");
    assert_eq!(output.stderr, "to-err\ncommand terminated with exit code 7\n", "{way}");
}

pub(super) fn input_arrives_and_ends(way: &Way<'_>) {
    let text: String = (0..30_000).map(|number| format!("line {number}\n")).collect();
    std::fs::write(way.file("input"), &text).unwrap();
    let cat = way.kubectl(["exec", "-i", &way.pod, "--", "sh", "-c", "cat; echo end"]);
    let output = cat.stdin_from(way.file("input")).run_ok().unwrap();
    assert_eq!(output.len(), text.len() + "end\n".len(), "{way}");
    assert!(output == text + "end\n", "{way}: the same, to the last byte");
}

pub(super) fn a_terminal_follows_its_size(way: &Way<'_>) {
    // A trap interrupts reading.
    let script = "trap 'stty size' WINCH; stty size; echo ready; until [ \"$line\" = bye ]; do read -r line && echo got $line; done";
    let name = way.file("terminal");
    let shell = way.kubectl(["exec", "-it", &way.pod, "--", "sh", "-c", script]);
    let shell = shell.stdin_piped().on_terminal(33, 101, &name).spawn().unwrap();
    let sees = |text: &str| {
        let seen = || shell.stdout().contains(text).then_some(()).ok_or_else(|| shell.stdout());
        wait::until_ok(&format!("{way}: {text} on the terminal"), SOON, seen).unwrap();
    };
    // The size is sent beside the command and may arrive after its start; the trap prints it then.
    sees("ready");
    sees("33 101");
    let terminal = std::fs::read_to_string(&name).unwrap();
    let resize = |rows: &str| {
        let resized = Command::new("stty").args(["-F", terminal.trim(), "rows", rows, "cols", "99"]).status().unwrap();
        assert!(resized.success(), "{way}");
    };
    resize("44");
    shell.write(b"on\n").unwrap();
    sees("got on");
    let mut looks = 0;
    let seen = || {
        looks += 1;
        // kubectl drops a size while another one waits to be sent.
        if looks % 100 == 0 {
            ["45", "44"].into_iter().for_each(resize);
        }
        shell.stdout().contains("44 99").then_some(()).ok_or_else(|| shell.stdout())
    };
    wait::until_ok(&format!("{way}: the new size on the terminal"), SOON, seen).unwrap();
    shell.write(b"bye\n").unwrap();
    let status = shell.wait_exit(SOON).unwrap();
    assert!(status.success(), "{way}: {status} {}", shell.stdout());
}

pub(super) fn what_is_not_there_is_told(way: &Way<'_>) {
    let nobody = way.kubectl(["exec", "nobody", "--", "true"]).run().unwrap();
    assert_eq!(nobody.stderr, "Error from server (NotFound): pods \"nobody\" not found\n", "{way}");
    let nothing = way.kubectl(["exec", &way.pod, "--", "no-such-command"]).run().unwrap();
    assert!(nothing.stderr.contains("\"no-such-command\": executable file not found"), "{way}: {nothing:?}");
    assert_eq!(nothing.status.code(), Some(1), "{way}");
}

pub(super) fn attach_talks_to_the_main_process(way: &Way<'_>) {
    let attached = way.kubectl(["attach", "-i", &way.pod]).stdin_piped().spawn().unwrap();
    let sees = |text: &str| {
        let seen = || (attached.stdout() + &attached.log()).contains(text).then_some(());
        wait::until(&format!("{way}: {text} from the main process"), SOON, seen).unwrap();
    };
    // Said by kubectl before it listens.
    sees("If you don't see a command prompt");
    for word in ["one", "two"] {
        attached.write(format!("{word}\n").as_bytes()).unwrap();
        sees(&format!("out {word}\n"));
        sees(&format!("err {word}\n"));
    }
    assert!(!attached.stdout().contains("err "), "{way}: outputs arrive apart");
    attached.write(b"bye\n").unwrap();
    let status = attached.wait_exit(SOON).unwrap();
    assert!(status.success(), "{way}: {status} {}", attached.log());
}
