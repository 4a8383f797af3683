import torch, copy
def test_smoke(tmp_path):
    import vnait.model as m, vnait.methods as me
    for name in me.METHODS:
        model = m.VnaitForSequenceClassification(m.VnaitConfig(method=name, vocab_size=20, num_labels=2)).eval()
        ids = torch.tensor([[3,4,5,0],[0,6,7,8]])
        out = model(ids, labels=torch.tensor([0,1]), output_attentions=True)
        out.loss.backward()
        model.save_pretrained(tmp_path/name)
        new = m.load_classifier(tmp_path/name)
        assert torch.equal(new(ids).logits, out.logits)
        copy.deepcopy(model)
        import pytest
    with pytest.raises(Exception):
        from vnait.coordinates import Index
        Index()(None, torch.ones(3))
    lm = m.VnaitForMaskedLM(m.VnaitConfig(vocab_size=50))
    print(lm.model.vectors.weight.square().mean(), lm.model.vectors.weight[0].abs().max(), lm.decoder.weight is lm.model.vectors.weight)
    m.seed_weights(lm, 0)
    print(lm.model.vectors.weight.square().mean(), lm.model.vectors.weight[0].abs().max(), lm.decoder.weight is lm.model.vectors.weight)
