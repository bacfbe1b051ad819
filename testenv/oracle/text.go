package main

import (
	"encoding/json"
	"fmt"
	"sort"
)

// text is bytes that travel as one character each.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var characters string
	if err := json.Unmarshal(data, &characters); err != nil {
		return err
	}
	bytes := make([]byte, 0, len(characters))
	for _, character := range characters {
		if character > 0xff {
			return fmt.Errorf("%q is no byte", character)
		}
		bytes = append(bytes, byte(character))
	}
	*t = text(bytes)
	return nil
}

func (t text) MarshalJSON() ([]byte, error) {
	characters := make([]rune, 0, len(t))
	for _, b := range []byte(t) {
		characters = append(characters, rune(b))
	}
	return json.Marshal(string(characters))
}

// userInfo is a user; Extra is sorted by key, because a map would lose bytes of its keys.
type userInfo struct {
	Name   text    `json:"name"`
	UID    text    `json:"uid"`
	Groups []text  `json:"groups"`
	Extra  []extra `json:"extra"`
}

type extra struct {
	Key    text   `json:"key"`
	Values []text `json:"values"`
}

func texts(list []string) []text {
	all := make([]text, 0, len(list))
	for _, item := range list {
		all = append(all, text(item))
	}
	return all
}

func plain(list []text) []string {
	all := make([]string, 0, len(list))
	for _, item := range list {
		all = append(all, string(item))
	}
	return all
}

func extras(of map[string][]string) []extra {
	all := make([]extra, 0, len(of))
	for key, values := range of {
		all = append(all, extra{Key: text(key), Values: texts(values)})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
	return all
}
